// Calls single kernels from Python, for tests.
//
//   results = call("aten::add.out", [x, y, 1, Out(z)])
//
// Arguments: tensors (dense, in any dim order), numbers, strings, None, lists of ints, lists of
// tensors and None. An `Out` is a tensor whose sizes are an upper bound; `call` returns the sizes
// it has afterwards. A `Result` is a slot with a number, to which the kernel writes another; that
// is returned.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "pteron/runtime/kernel/registry.h"
#include "pteron/runtime/python/import_tensor.h"
#include "pteron/runtime/python/python_error.h"

namespace py = pybind11;

namespace pteron::python {
namespace {

struct Out {
  py::object tensor;
};
struct Result {
  py::object initial;  // of the kind that the slot keeps
};

class Call final {
 public:
  void add(const py::object& argument) { arguments_.push_back(value_of(argument)); }

  py::list run(const std::string& name) {
    const KernelFunction kernel = find_kernel(name);
    if (!kernel) throw py::key_error(name);
    static auto* const context = new KernelContext;
    throw_if_error(kernel(*context, {arguments_.data(), arguments_.size()}));
    py::list results;
    for (const EValue* value : outs_) results.append(result_of(*value));
    return results;
  }

 private:
  EValue* make(EValue value) {
    values_.push_back(std::move(value));
    return &values_.back();
  }

  EValue* tensor_value(const py::object& object, ShapeDynamism dynamism) {
    imported_.emplace_back();
    ImportedTensor& tensor = imported_.back();
    if (!tensor.import(object.ptr())) throw py::type_error("no tensor");
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
        throw py::value_error("a tensor with gaps between its elements");
      }
    }
    return make(EValue(result));
  }

  EValue* list_value(const py::handle items) {
    bool ints = true;  // an empty list is one of ints
    for (const py::handle item : items) ints &= py::isinstance<py::int_>(item);
    auto& pointers = lists_.emplace_back();
    for (const py::handle item : items) {
      const bool none = item.is_none();
      pointers.push_back(none ? nullptr : value_of(py::reinterpret_borrow<py::object>(item)));
    }
    const Span<EValue* const> span(pointers.data(), pointers.size());
    if (ints) return make(EValue(IntList{span}));
    const bool complete = std::count(pointers.begin(), pointers.end(), nullptr) == 0;
    return make(complete ? EValue(TensorList{span}) : EValue(OptionalTensorList{span}));
  }

  EValue* value_of(const py::object& argument) {
    if (py::isinstance<Out>(argument)) {
      outs_.push_back(
          tensor_value(py::cast<const Out&>(argument).tensor, ShapeDynamism::DynamicBound));
      return outs_.back();
    }
    if (py::isinstance<Result>(argument)) {
      outs_.push_back(value_of(py::cast<const Result&>(argument).initial));
      return outs_.back();
    }
    if (argument.is_none()) return make(EValue());
    if (py::isinstance<py::bool_>(argument)) return make(EValue(py::cast<bool>(argument)));
    if (py::isinstance<py::int_>(argument)) return make(EValue(py::cast<int64_t>(argument)));
    if (py::isinstance<py::float_>(argument)) return make(EValue(py::cast<double>(argument)));
    if (py::isinstance<py::str>(argument)) {
      texts_.push_back(py::cast<std::string>(argument));
      return make(EValue(std::string_view(texts_.back())));
    }
    if (py::isinstance<py::list>(argument) || py::isinstance<py::tuple>(argument)) {
      return list_value(argument);
    }
    return tensor_value(argument, ShapeDynamism::Static);
  }

  static py::object result_of(const EValue& value) {
    if (value.is_tensor()) {
      py::list sizes;
      for (size_t d = 0; d < value.tensor().dim(); ++d) sizes.append(value.tensor().size(d));
      return py::make_tuple(py::tuple(sizes), reinterpret_cast<uintptr_t>(value.tensor().data()));
    }
    if (value.is_int()) return py::int_(value.to_int());
    if (value.is_double()) return py::float_(value.to_double());
    if (value.is_bool()) return py::bool_(value.to_bool());
    return py::none();
  }

  std::deque<EValue> values_;
  std::deque<ImportedTensor> imported_;
  std::deque<std::vector<EValue*>> lists_;
  std::deque<std::string> texts_;
  std::vector<EValue*> arguments_;
  std::vector<EValue*> outs_;
};

}  // namespace

PYBIND11_MODULE(_kernel_caller, module) {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const PythonError&) {  // Python's exception is set
    }
  });
  py::class_<Out>(module, "Out").def(py::init<py::object>());
  py::class_<Result>(module, "Result").def(py::init<py::object>());
  module.def("call", [](const std::string& name, const py::list& arguments) {
    Call call;
    for (const py::handle argument : arguments) {
      call.add(py::reinterpret_borrow<py::object>(argument));
    }
    return call.run(name);
  });
  module.def("registered_kernels", &registered_kernels);
}

}  // namespace pteron::python
