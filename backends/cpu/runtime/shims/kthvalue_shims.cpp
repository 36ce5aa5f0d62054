// Sorting and selecting along a dimension. NaN counts as the greatest number; equal elements keep
// their order, which makes every sort here a stable one.
#include <algorithm>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/rows.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

struct Selection {
  TensorPtr values;
  TensorPtr indices;
};

void give(Selection selection, AtenTensorHandle* values, AtenTensorHandle* indices) {
  *values = selection.values.release();
  *indices = selection.indices.release();
}

// Sizes of `self` with `count` along `dim`.
Result<Selection> make_selection(const SlimTensor& self, size_t dim, int64_t count) {
  int64_t sizes[slim::kMaxDims];
  std::copy(self.sizes().begin(), self.sizes().end(), sizes);
  if (self.dim() > 0) sizes[dim] = count;
  Selection out;
  PTERON_ASSIGN_OR_RETURN(out.values,
                          slim::make_tensor(Span<const int64_t>(sizes, self.dim()), self.dtype()));
  PTERON_ASSIGN_OR_RETURN(out.indices,
                          slim::make_tensor(Span<const int64_t>(sizes, self.dim()), DType::Long));
  return out;
}

template <typename T>
void kth_of_rows(const SlimTensor& self, size_t dim, int64_t k, const SlimTensor& values,
                 const SlimTensor& indices) {
  const Rows in(self, dim);
  const RankedBefore<T> before{false};
  parallel_for(in.count(), in.grain(), [&](int64_t begin, int64_t end) {
    Scratch<Ranked<T>> ranked(in.length());
    for (int64_t l = begin; l < end; ++l) {
      const T* row = self.data_as<const T>() + in.offset(l);
      for (int64_t i = 0; i < in.length(); ++i) ranked[i] = {row[i * in.stride()], i};
      std::nth_element(ranked.data(), ranked.data() + k, ranked.data() + in.length(), before);
      values.data_as<T>()[l] = ranked[k].value;  // row-major, one element a row
      indices.data_as<int64_t>()[l] = ranked[k].index;
    }
  });
}

Error kthvalue(AtenTensorHandle self, int64_t k, int64_t dim, bool keepdim,
               AtenTensorHandle* values, AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
  const int64_t length = self->dim() == 0 ? 1 : self->size(d);
  PTERON_CHECK_OR_RETURN(k >= 1 && k <= length, Error::InvalidArgument,
                         "found k %lld, expected 1 to %lld for dimension %zu of %s",
                         static_cast<long long>(k), static_cast<long long>(length), d,
                         self->describe().c_str());
  PTERON_ASSIGN_OR_RETURN(Selection out, make_selection(*self, d, 1));
  bool done = false;
  PTERON_DISPATCH_REAL(self->dtype(), T, {
    kth_of_rows<T>(*self, d, k - 1, *out.values, *out.indices);
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(self);
  if (!keepdim && self->dim() > 0) {
    // Row-major either way: dropping a dimension of size 1 moves nothing.
    int64_t sizes[slim::kMaxDims], strides[slim::kMaxDims];
    size_t n = 0;
    for (size_t i = 0; i < self->dim(); ++i) {
      if (i != d) sizes[n++] = self->size(i);
    }
    slim::contiguous_strides(Span<const int64_t>(sizes, n), strides);
    for (SlimTensor* tensor : {out.values.get(), out.indices.get()}) {
      PTERON_RETURN_IF_ERROR(tensor->set(tensor->storage(), Span<const int64_t>(sizes, n),
                                         Span<const int64_t>(strides, n), 0, tensor->dtype()));
    }
  }
  give(std::move(out), values, indices);
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_kthvalue)
(AtenTensorHandle self, int64_t k, int64_t dim, int32_t keepdim, AtenTensorHandle* values,
 AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_kthvalue",
                    [&] { return kthvalue(self, k, dim, keepdim != 0, values, indices); });
}

}  // namespace pteron::cpu
