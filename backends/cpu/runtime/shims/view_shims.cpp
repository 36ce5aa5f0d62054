// Other views of the same bytes, and filling them.
#include <algorithm>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

struct Layout {
  size_t dim = 0;
  int64_t sizes[slim::kMaxDims];
  int64_t strides[slim::kMaxDims];
  int64_t offset = 0;
};

Layout layout_of(const SlimTensor& tensor) {
  Layout layout;
  layout.dim = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), layout.sizes);
  std::copy(tensor.strides().begin(), tensor.strides().end(), layout.strides);
  layout.offset = tensor.storage_offset();
  return layout;
}

Error give_view(const SlimTensor& self, const Layout& layout, DType dtype, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  TensorPtr view(new SlimTensor);
  PTERON_RETURN_IF_ERROR(view->set(self.storage(), Span<const int64_t>(layout.sizes, layout.dim),
                                   Span<const int64_t>(layout.strides, layout.dim), layout.offset,
                                   dtype));
  *ret = view.release();
  return Error::Ok;
}

// Elements `factor` times smaller or larger than before: strides and offset are counted in them.
Error rescale(const SlimTensor& self, Layout* layout, int64_t factor, bool smaller) {
  for (size_t d = 0; d < layout->dim; ++d) {
    int64_t& stride = layout->strides[d];
    if (d + 1 == layout->dim) continue;
    PTERON_CHECK_OR_RETURN(
        smaller || stride % factor == 0 || layout->sizes[d] <= 1, Error::InvalidArgument,
        "found self %s with stride %lld, expected a multiple of %lld", self.describe().c_str(),
        static_cast<long long>(stride), static_cast<long long>(factor));
    stride = smaller ? stride * factor : stride / factor;
  }
  PTERON_CHECK_OR_RETURN(smaller || layout->offset % factor == 0, Error::InvalidArgument,
                         "found self %s at offset %lld, expected a multiple of %lld",
                         self.describe().c_str(), static_cast<long long>(layout->offset),
                         static_cast<long long>(factor));
  layout->offset = smaller ? layout->offset * factor : layout->offset / factor;
  return Error::Ok;
}

DType complex_of(DType real) {
  switch (real) {
    case DType::Float:
      return DType::ComplexFloat;
    case DType::Double:
      return DType::ComplexDouble;
    case DType::Half:
      return DType::ComplexHalf;
    default:
      return real;
  }
}

DType real_of(DType complex) {
  switch (complex) {
    case DType::ComplexFloat:
      return DType::Float;
    case DType::ComplexDouble:
      return DType::Double;
    case DType::ComplexHalf:
      return DType::Half;
    default:
      return complex;
  }
}

}  // namespace

// [..., 2] of real numbers, the pairs without a gap, as [...] of complex ones.
PTERON_AOTI_SHIM(AOTITorchError, cpu_view_as_complex)(AtenTensorHandle self,
                                                      AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_view_as_complex", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    const DType dtype = complex_of(self->dtype());
    const bool pairs =
        self->dim() > 0 && self->size(self->dim() - 1) == 2 && self->stride(self->dim() - 1) == 1;
    PTERON_CHECK_OR_RETURN(dtype != self->dtype() && pairs, Error::InvalidArgument,
                           "found self %s, expected pairs of floating-point numbers",
                           self->describe().c_str());
    Layout layout = layout_of(*self);
    PTERON_RETURN_IF_ERROR(rescale(*self, &layout, 2, false));
    --layout.dim;
    return give_view(*self, layout, dtype, ret);
  });
}

// The reverse.
PTERON_AOTI_SHIM(AOTITorchError, cpu_view_as_real)(AtenTensorHandle self, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_view_as_real", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_CHECK_OR_RETURN(slim::is_complex(self->dtype()) && self->dim() < slim::kMaxDims,
                           Error::InvalidArgument, "found self %s, expected complex numbers",
                           self->describe().c_str());
    Layout layout = layout_of(*self);
    layout.sizes[layout.dim] = 2;
    layout.strides[layout.dim] = 1;
    ++layout.dim;
    PTERON_RETURN_IF_ERROR(rescale(*self, &layout, 2, true));
    return give_view(*self, layout, real_of(self->dtype()), ret);
  });
}

// The last dimension grows or shrinks with the size of the elements.
PTERON_AOTI_SHIM(AOTITorchError, cpu_view_dtype)
(AtenTensorHandle self, int32_t dtype, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_view_dtype", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_ASSIGN_OR_RETURN(const DType type, aoti::dtype_argument(dtype));
    const auto from = static_cast<int64_t>(self->item_size());
    const auto to = static_cast<int64_t>(slim::element_size(type));
    Layout layout = layout_of(*self);
    if (from == to) return give_view(*self, layout, type, ret);
    PTERON_CHECK_OR_RETURN(layout.dim > 0 && layout.strides[layout.dim - 1] == 1,
                           Error::InvalidArgument,
                           "found self %s viewed as %s, expected a last dimension without gaps",
                           self->describe().c_str(), slim::name_of(type));
    int64_t& last = layout.sizes[layout.dim - 1];
    if (from > to) {
      last *= from / to;
      PTERON_RETURN_IF_ERROR(rescale(*self, &layout, from / to, true));
    } else {
      PTERON_CHECK_OR_RETURN(last % (to / from) == 0, Error::InvalidArgument,
                             "found self %s viewed as %s, expected a last size that divides",
                             self->describe().c_str(), slim::name_of(type));
      last /= to / from;
      PTERON_RETURN_IF_ERROR(rescale(*self, &layout, to / from, false));
    }
    return give_view(*self, layout, type, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_permute)
(AtenTensorHandle self, const int64_t* dims, int64_t dims_length, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_permute", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> order,
                            aoti::list_argument(dims, dims_length, "dims"));
    PTERON_CHECK_OR_RETURN(order.size() == self->dim(), Error::InvalidArgument,
                           "found %zu dims, expected one for each dimension of %s", order.size(),
                           self->describe().c_str());
    Layout layout = layout_of(*self);
    bool seen[slim::kMaxDims] = {};
    for (size_t i = 0; i < order.size(); ++i) {
      PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(order[i], self->dim()));
      PTERON_CHECK_OR_RETURN(!seen[d], Error::InvalidArgument,
                             "found dimension %zu twice, expected each once", d);
      seen[d] = true;
      layout.sizes[i] = self->size(d);
      layout.strides[i] = self->stride(d);
    }
    return give_view(*self, layout, self->dtype(), ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_fill__Scalar)(AtenTensorHandle self, double value) {
  return c_boundary("aoti_torch_cpu_fill__Scalar", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    slim::fill_tensor(*self, slim::Scalar::of(value));
    return Error::Ok;
  });
}

}  // namespace pteron::cpu
