// Order along a dimension. Equal elements keep their order; NaN is larger than all.
#include <algorithm>

#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/slices.h"

namespace pteron::kernels {
namespace {

template <typename Number>
struct Entry {
  Number value;
  int64_t index;
};

template <typename Number>
bool less(Number a, Number b) {
  return a < b || (a == a && b != b);
}

// Whether `a` comes first. Places break ties, so that an unstable sort is a stable one.
template <typename Number>
struct ComesFirst {
  bool descending;
  bool operator()(const Entry<Number>& a, const Entry<Number>& b) const {
    if (descending ? less(b.value, a.value) : less(a.value, b.value)) return true;
    if (descending ? less(a.value, b.value) : less(b.value, a.value)) return false;
    return a.index < b.index;
  }
};

// The first `count` elements of each slice of `self` in order, with their indices.
Error sort(KernelContext& context, const Tensor& self, size_t dim, int64_t count, bool descending,
           bool sorted, Tensor& values, Tensor& indices) {
  Shape shape(self.sizes());
  if (self.dim() > 0) shape.sizes[dim] = count;
  PTERON_RETURN_IF_ERROR(resize_out(values, shape.span()));
  PTERON_RETURN_IF_ERROR(resize_out(indices, shape.span()));
  // Walks over all slices of the input; results are shorter, and found through the same
  // coordinates.
  View from = view_of(self);
  View value_view = view_of(values);
  View index_view = view_of(indices);
  for (View* view : {&from, &value_view, &index_view}) {
    if (view->dim == 0) *view = view->unsqueezed(0);
  }
  const int64_t length = from.sizes[dim];
  const int64_t from_step = from.strides[dim];
  const int64_t value_step = value_view.strides[dim];
  const int64_t index_step = index_view.strides[dim];
  from = from.selected(dim, 0);
  value_view = value_view.selected(dim, 0);
  index_view = index_view.selected(dim, 0);
  if (count == 0 || length == 0) return Error::Ok;
  return dispatch_number(self.dtype(), [&](auto number) -> Error {
    using Number = decltype(number);
    PTERON_ASSIGN_OR_RETURN(void* scratch,
                            context.scratch(static_cast<size_t>(length) * sizeof(Entry<Number>)));
    auto* entries = static_cast<Entry<Number>*>(scratch);
    const ComesFirst<Number> first{descending};
    for (Runs<3> runs({&from, &value_view, &index_view}); runs.next();) {
      for (int64_t i = 0; i < runs.count(); ++i) {
        const std::byte* source = runs.data(0) + i * runs.step(0);
        for (int64_t k = 0; k < length; ++k) {
          entries[k] = {load_one<Number>(from.dtype, source + k * from_step), k};
        }
        if (count < length) {
          std::nth_element(entries, entries + count - 1, entries + length, first);
        }
        if (sorted) std::sort(entries, entries + count, first);
        for (int64_t k = 0; k < count; ++k) {
          store_one(value_view.dtype, runs.data(1) + i * runs.step(1) + k * value_step,
                    entries[k].value);
          store_one(index_view.dtype, runs.data(2) + i * runs.step(2) + k * index_step,
                    entries[k].index);
        }
      }
    }
    return Error::Ok;
  });
}

Error sort_all(KernelContext& context, const Tensor& self, int64_t dim, bool descending,
               Tensor& values, Tensor& indices) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  return sort(context, self, d, self.dim() > 0 ? self.size(d) : 1, descending, true, values,
              indices);
}

}  // namespace

PTERON_DEFINE_KERNEL(sort_out, (KernelContext & context, const Tensor& self, int64_t dim,
                                bool descending, Tensor& values, Tensor& indices)) {
  return sort_all(context, self, dim, descending, values, indices);
}
PTERON_DEFINE_KERNEL(sort_stable_out,
                     (KernelContext & context, const Tensor& self, Ignored, int64_t dim,
                      bool descending, Tensor& values, Tensor& indices)) {
  return sort_all(context, self, dim, descending, values, indices);
}
PTERON_DEFINE_KERNEL(topk_out, (KernelContext & context, const Tensor& self, int64_t k, int64_t dim,
                                bool largest, bool sorted, Tensor& values, Tensor& indices)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  const int64_t length = self.dim() > 0 ? self.size(d) : 1;
  PTERON_CHECK_OR_RETURN(k >= 0 && k <= length, Error::InvalidArgument,
                         "found k = %lld, expected 0 to %lld", static_cast<long long>(k),
                         static_cast<long long>(length));
  return sort(context, self, d, k, largest, sorted, values, indices);
}

}  // namespace pteron::kernels
