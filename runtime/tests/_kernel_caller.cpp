// Calls single kernels from Python, for tests.
//
//   results = call("aten::add.out", [x, y, 1, Out(z)])
//
// Arguments: tensors (dense, in any dim order), numbers, strings, None, lists of ints, lists of
// tensors and None. An `Out` is a tensor whose sizes are an upper bound; `call` returns the sizes
// it has afterwards. A `Result` is a slot with a number, to which the kernel writes another; that
// is returned.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "pteron/runtime/kernel/registry.h"
#include "pteron/runtime/python/import_tensor.h"
#include "pteron/runtime/python/python_error.h"

namespace nb = nanobind;

namespace pteron::python {
namespace {

struct Out {
  nb::object tensor;
};
struct Result {
  nb::object initial;  // of the kind that the slot keeps
};

class Call final {
 public:
  void add(const nb::object& argument) { arguments_.push_back(value_of(argument)); }

  nb::list run(const std::string& name) {
    const KernelFunction kernel = find_kernel(name);
    if (!kernel) throw nb::key_error(name.c_str());
    static auto* const context = new KernelContext;
    throw_if_error(kernel(*context, {arguments_.data(), arguments_.size()}));
    nb::list results;
    for (const EValue* value : outs_) results.append(result_of(*value));
    return results;
  }

 private:
  EValue* make(EValue value) {
    values_.push_back(std::move(value));
    return &values_.back();
  }

  EValue* tensor_value(const nb::object& object, ShapeDynamism dynamism) {
    imported_.emplace_back();
    ImportedTensor& tensor = imported_.back();
    if (!tensor.import(object)) throw nb::type_error("no tensor");
    std::vector<uint8_t> order(tensor.dim);
    std::iota(order.begin(), order.end(), uint8_t{0});
    std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) {
      return tensor.strides[a] * std::max<int64_t>(tensor.sizes[a], 1) >
             tensor.strides[b] * std::max<int64_t>(tensor.sizes[b], 1);
    });
    const Tensor result = value_or_throw(
        Tensor::make(tensor.dtype, {tensor.sizes.data(), tensor.dim}, {order.data(), order.size()},
                     tensor.data, tensor.device, dynamism));
    for (size_t d = 0; d < tensor.dim; ++d) {
      if (tensor.sizes[d] > 1 && tensor.strides[d] != result.strides()[d]) {
        throw nb::value_error("a tensor with gaps between its elements");
      }
    }
    return make(EValue(result));
  }

  EValue* list_value(const nb::handle items) {
    bool ints = true;  // an empty list is one of ints
    for (const nb::handle item : items) ints &= nb::isinstance<nb::int_>(item);
    auto& pointers = lists_.emplace_back();
    for (const nb::handle item : items) {
      const bool none = item.is_none();
      pointers.push_back(none ? nullptr : value_of(nb::borrow(item)));
    }
    const Span<EValue* const> span(pointers.data(), pointers.size());
    if (ints) return make(EValue(IntList{span}));
    const bool complete = std::count(pointers.begin(), pointers.end(), nullptr) == 0;
    return make(complete ? EValue(TensorList{span}) : EValue(OptionalTensorList{span}));
  }

  EValue* value_of(const nb::object& argument) {
    if (nb::isinstance<Out>(argument)) {
      outs_.push_back(tensor_value(nb::cast<Out>(argument).tensor, ShapeDynamism::DynamicBound));
      return outs_.back();
    }
    if (nb::isinstance<Result>(argument)) {
      outs_.push_back(value_of(nb::cast<Result>(argument).initial));
      return outs_.back();
    }
    if (argument.is_none()) return make(EValue());
    if (nb::isinstance<nb::bool_>(argument)) return make(EValue(nb::cast<bool>(argument)));
    if (nb::isinstance<nb::int_>(argument)) return make(EValue(nb::cast<int64_t>(argument)));
    if (nb::isinstance<nb::float_>(argument)) return make(EValue(nb::cast<double>(argument)));
    if (nb::isinstance<nb::str>(argument)) {
      texts_.push_back(nb::cast<std::string>(argument));
      return make(EValue(std::string_view(texts_.back())));
    }
    if (nb::isinstance<nb::list>(argument) || nb::isinstance<nb::tuple>(argument)) {
      return list_value(argument);
    }
    return tensor_value(argument, ShapeDynamism::Static);
  }

  static nb::object result_of(const EValue& value) {
    if (value.is_tensor()) {
      nb::list sizes;
      for (size_t d = 0; d < value.tensor().dim(); ++d) sizes.append(value.tensor().size(d));
      return nb::make_tuple(nb::tuple(sizes), reinterpret_cast<uintptr_t>(value.tensor().data()));
    }
    if (value.is_int()) return nb::int_(value.to_int());
    if (value.is_double()) return nb::float_(value.to_double());
    if (value.is_bool()) return nb::bool_(value.to_bool());
    return nb::none();
  }

  std::deque<EValue> values_;
  std::deque<ImportedTensor> imported_;
  std::deque<std::vector<EValue*>> lists_;
  std::deque<std::string> texts_;
  std::vector<EValue*> arguments_;
  std::vector<EValue*> outs_;
};

}  // namespace

NB_MODULE(_kernel_caller, module) {
  nb::class_<Out>(module, "Out").def(nb::init<nb::object>());
  nb::class_<Result>(module, "Result").def(nb::init<nb::object>());
  module.def("call", [](const std::string& name, const nb::list& arguments) {
    Call call;
    for (const nb::handle argument : arguments) {
      call.add(nb::borrow(argument));
    }
    return call.run(name);
  });
  module.def("registered_kernels", &registered_kernels);
}

}  // namespace pteron::python
