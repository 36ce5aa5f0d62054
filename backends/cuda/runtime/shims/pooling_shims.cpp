// Pooling of images and volumes. Results are channels-last where the input is, as torch has it for
// each of them.

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/pooling_arguments.h"
#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/cuda/runtime/kernels/pooling.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using aoti::IntArrayRef;
using aoti::PoolingShape;
using aoti::PoolingWindows;
using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// What differs between the functions of one family.
struct Kind {
  size_t dims;               // spatial ones, 2 or 3
  bool keeps_channels_last;  // whether the result has the input's layout
};

// Strides of batch, channels, depth, height and width; 0 for those that `tensor` lacks.
void spread_strides(const SlimTensor& tensor, size_t dims, int64_t* strides) {
  const size_t leading = tensor.dim() - dims;
  if (leading == 2) strides[0] = tensor.stride(0);
  strides[1] = tensor.stride(leading - 1);
  for (size_t d = 0; d < dims; ++d) strides[5 - dims + d] = tensor.stride(leading + d);
}

// An uninitialised result.
Result<TensorPtr> make_result(const SlimTensor& self, Kind kind, const PoolingShape& shape,
                              DType dtype) {
  int64_t sizes[slim::kMaxDims], strides[slim::kMaxDims];
  const Span<const int64_t> all(sizes, aoti::pooled_sizes(self, kind.dims, shape, sizes));
  if (kind.keeps_channels_last && self.dim() == kind.dims + 2 && slim::is_channels_last(self)) {
    slim::channels_last_strides(all, strides);
  } else {
    slim::contiguous_strides(all, strides);
  }
  return slim::make_tensor(all, Span<const int64_t>(strides, all.size()), dtype, self.device());
}

Pooling pooling_of(const SlimTensor& self, Kind kind, const PoolingShape& shape, bool adaptive,
                   const SlimTensor& out) {
  Pooling pooling;
  pooling.dtype = static_cast<ScalarType>(self.dtype());
  pooling.adaptive = adaptive;
  const size_t leading = self.dim() - kind.dims;
  pooling.batch = leading == 2 ? self.size(0) : 1;
  pooling.channels = self.size(leading - 1);
  for (size_t d = 0; d < 3; ++d) {
    pooling.in[d] = shape.in[d];
    pooling.out[d] = shape.out[d];
    pooling.kernel[d] = shape.kernel[d];
    pooling.stride[d] = shape.stride[d];
    pooling.padding[d] = shape.padding[d];
    pooling.dilation[d] = shape.dilation[d];
  }
  spread_strides(self, kind.dims, pooling.in_strides);
  spread_strides(out, kind.dims, pooling.out_strides);
  return pooling;
}

Error check(const SlimTensor* self) {
  PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
  PTERON_CHECK_OR_RETURN(self->dtype() == DType::Half || self->dtype() == DType::BFloat16 ||
                             self->dtype() == DType::Float || self->dtype() == DType::Double,
                         Error::InvalidType,
                         "found self %s, expected float16, bfloat16, float32 or float64",
                         self->describe().c_str());
  return Error::Ok;
}

Error average(const SlimTensor& self, Kind kind, const PoolingShape& shape, bool adaptive,
              bool count_padding, int64_t divisor, AtenTensorHandle* ret0) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(self, kind, shape, self.dtype()));
  PTERON_RETURN_IF_ERROR(average_pool(pooling_of(self, kind, shape, adaptive, *out), count_padding,
                                      divisor, self.data(), out->data(), scope.stream()));
  *ret0 = out.release();
  return Error::Ok;
}

Error maximum(const SlimTensor& self, Kind kind, const PoolingShape& shape, bool adaptive,
              AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(self, kind, shape, self.dtype()));
  PTERON_ASSIGN_OR_RETURN(TensorPtr argmax, make_result(self, kind, shape, DType::Long));
  PTERON_RETURN_IF_ERROR(maximum_pool(pooling_of(self, kind, shape, adaptive, *out), self.data(),
                                      out->data(), argmax->data_as<int64_t>(), scope.stream()));
  *ret0 = out.release();
  *ret1 = argmax.release();
  return Error::Ok;
}

Error adaptive_average(const SlimTensor* self, IntArrayRef output_size, Kind kind,
                       AtenTensorHandle* ret0) {
  PTERON_RETURN_IF_ERROR(check(self));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
  PTERON_ASSIGN_OR_RETURN(PoolingShape shape, aoti::pooling_shape(*self, kind.dims));
  PTERON_RETURN_IF_ERROR(aoti::read_adaptive(output_size, kind.dims, &shape));
  return average(*self, kind, shape, true, true, 0, ret0);
}

Error sliding_average(const SlimTensor* self, const PoolingWindows& windows, bool count_padding,
                      const int64_t* divisor, Kind kind, AtenTensorHandle* ret0) {
  PTERON_RETURN_IF_ERROR(check(self));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
  PTERON_CHECK_OR_RETURN(divisor == nullptr || *divisor != 0, Error::InvalidArgument,
                         "found divisor_override 0, expected another number");
  PTERON_ASSIGN_OR_RETURN(PoolingShape shape, aoti::pooling_shape(*self, kind.dims));
  PTERON_RETURN_IF_ERROR(aoti::read_windows(*self, kind.dims, windows, &shape));
  return average(*self, kind, shape, false, count_padding, divisor ? *divisor : 0, ret0);
}

Error adaptive_maximum(const SlimTensor* self, IntArrayRef output_size, Kind kind,
                       AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  PTERON_RETURN_IF_ERROR(check(self));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret1, "ret1"));
  PTERON_ASSIGN_OR_RETURN(PoolingShape shape, aoti::pooling_shape(*self, kind.dims));
  PTERON_RETURN_IF_ERROR(aoti::read_adaptive(output_size, kind.dims, &shape));
  return maximum(*self, kind, shape, true, ret0, ret1);
}

Error sliding_maximum(const SlimTensor* self, const PoolingWindows& windows, size_t dims,
                      AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  PTERON_RETURN_IF_ERROR(check(self));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret1, "ret1"));
  PTERON_ASSIGN_OR_RETURN(PoolingShape shape, aoti::pooling_shape(*self, dims));
  PTERON_RETURN_IF_ERROR(aoti::read_windows(*self, dims, windows, &shape));
  return maximum(*self, {dims, true}, shape, false, ret0, ret1);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda__adaptive_avg_pool2d)
(AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_,
 AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda__adaptive_avg_pool2d", [&] {
    return adaptive_average(self, {output_size, output_size_len_}, {2, true}, ret0);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda__adaptive_avg_pool3d)
(AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_,
 AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda__adaptive_avg_pool3d", [&] {
    return adaptive_average(self, {output_size, output_size_len_}, {3, false}, ret0);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_adaptive_max_pool2d)
(AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_,
 AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_adaptive_max_pool2d", [&] {
    return adaptive_maximum(self, {output_size, output_size_len_}, {2, true}, ret0, ret1);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_adaptive_max_pool3d)
(AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_,
 AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_adaptive_max_pool3d", [&] {
    return adaptive_maximum(self, {output_size, output_size_len_}, {3, false}, ret0, ret1);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_avg_pool2d)
(AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride,
 int64_t stride_len_, const int64_t* padding, int64_t padding_len_, int32_t ceil_mode,
 int32_t count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_avg_pool2d", [&] {
    return sliding_average(self,
                           {{kernel_size, kernel_size_len_},
                            {stride, stride_len_},
                            {padding, padding_len_},
                            {},
                            ceil_mode != 0},
                           count_include_pad != 0, divisor_override, {2, true}, ret0);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_avg_pool3d)
(AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride,
 int64_t stride_len_, const int64_t* padding, int64_t padding_len_, int32_t ceil_mode,
 int32_t count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_avg_pool3d", [&] {
    return sliding_average(self,
                           {{kernel_size, kernel_size_len_},
                            {stride, stride_len_},
                            {padding, padding_len_},
                            {},
                            ceil_mode != 0},
                           count_include_pad != 0, divisor_override, {3, false}, ret0);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_max_pool2d_with_indices)
(AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride,
 int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
 int64_t dilation_len_, int32_t ceil_mode, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_max_pool2d_with_indices", [&] {
    return sliding_maximum(self,
                           {{kernel_size, kernel_size_len_},
                            {stride, stride_len_},
                            {padding, padding_len_},
                            {dilation, dilation_len_},
                            ceil_mode != 0},
                           2, ret0, ret1);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_max_pool3d_with_indices)
(AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, const int64_t* stride,
 int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
 int64_t dilation_len_, int32_t ceil_mode, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_max_pool3d_with_indices", [&] {
    return sliding_maximum(self,
                           {{kernel_size, kernel_size_len_},
                            {stride, stride_len_},
                            {padding, padding_len_},
                            {dilation, dilation_len_},
                            ceil_mode != 0},
                           3, ret0, ret1);
  });
}

}  // namespace pteron::cuda
