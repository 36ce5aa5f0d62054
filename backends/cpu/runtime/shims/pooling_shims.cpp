// Pooling of images and volumes. Results are channels-last where the input is, as torch has it for
// each of them.
#include <algorithm>

#include "pteron/backends/aoti/shims/pooling_arguments.h"
#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/pooling.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

using aoti::IntArrayRef;
using aoti::PoolingWindows;

// An input of `dims` spatial dimensions, with channels and perhaps a batch.
struct Planes {
  TensorPtr in;  // row-major
  PoolingShape shape;
  size_t dims;
  int64_t count;
  bool channels_last;
};

Result<Planes> read_planes(AtenTensorHandle self, size_t dims) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  Planes planes;
  planes.dims = dims;
  PTERON_ASSIGN_OR_RETURN(planes.shape, aoti::pooling_shape(*self, dims));
  planes.count = self->numel() / planes.shape.in_area();
  planes.channels_last = self->dim() == dims + 2 && slim::is_channels_last(*self);
  PTERON_ASSIGN_OR_RETURN(planes.in, slim::contiguous_tensor(*self));
  return planes;
}

Result<TensorPtr> make_result(const Planes& planes, DType dtype) {
  int64_t sizes[slim::kMaxDims];
  const size_t rank = aoti::pooled_sizes(*planes.in, planes.dims, planes.shape, sizes);
  return slim::make_tensor(Span<const int64_t>(sizes, rank), dtype);
}

// The result as it is wanted, from the row-major one.
Result<TensorPtr> finish(TensorPtr result, bool channels_last) {
  if (!channels_last) return result;
  PTERON_ASSIGN_OR_RETURN(TensorPtr last, make_channels_last(result->sizes(), result->dtype()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*last, *result));
  return last;
}

// Runs body(plane number) for all planes.
template <typename Body>
void for_each_plane(const Planes& planes, const Body& body) {
  const int64_t cost = planes.shape.in_area() + planes.shape.out_area();
  parallel_for(planes.count, 16384 / std::max<int64_t>(cost, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t p = begin; p < end; ++p) body(p);
               });
}

Error adaptive_average_shim(AtenTensorHandle self, IntArrayRef output_size, size_t dims,
                            bool keeps_channels_last, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(aoti::read_adaptive(output_size, dims, &planes.shape));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(planes, self->dtype()));
  bool done = false;
  PTERON_DISPATCH_FLOATING(self->dtype(), T, {
    for_each_plane(planes, [&](int64_t p) {
      adaptive_average<T>(planes.shape, planes.in->data_as<T>() + p * planes.shape.in_area(),
                          out->data_as<T>() + p * planes.shape.out_area());
    });
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(self);
  PTERON_ASSIGN_OR_RETURN(out, finish(std::move(out), keeps_channels_last && planes.channels_last));
  *ret = out.release();
  return Error::Ok;
}

Error average_shim(AtenTensorHandle self, const PoolingWindows& windows, bool count_include_pad,
                   const int64_t* divisor, size_t dims, bool keeps_channels_last,
                   AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_CHECK_OR_RETURN(!divisor || *divisor != 0, Error::InvalidArgument,
                         "found divisor 0, expected another number");
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(aoti::read_windows(*self, dims, windows, &planes.shape));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(planes, self->dtype()));
  bool done = false;
  PTERON_DISPATCH_FLOATING(self->dtype(), T, {
    for_each_plane(planes, [&](int64_t p) {
      average<T>(planes.shape, count_include_pad, divisor ? *divisor : 0,
                 planes.in->data_as<T>() + p * planes.shape.in_area(),
                 out->data_as<T>() + p * planes.shape.out_area());
    });
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(self);
  PTERON_ASSIGN_OR_RETURN(out, finish(std::move(out), keeps_channels_last && planes.channels_last));
  *ret = out.release();
  return Error::Ok;
}

// Runs maximum or adaptive_maximum over all planes.
Error run_maximum(Planes planes, DType dtype, bool adaptive, bool keeps_channels_last,
                  AtenTensorHandle* values, AtenTensorHandle* indices) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(planes, dtype));
  PTERON_ASSIGN_OR_RETURN(TensorPtr argmax, make_result(planes, DType::Long));
  bool done = false;
  PTERON_DISPATCH_REAL(dtype, T, {
    for_each_plane(planes, [&](int64_t p) {
      const T* in = planes.in->data_as<T>() + p * planes.shape.in_area();
      T* value = out->data_as<T>() + p * planes.shape.out_area();
      int64_t* index = argmax->data_as<int64_t>() + p * planes.shape.out_area();
      (adaptive ? adaptive_maximum<T> : maximum<T>)(planes.shape, in, value, index);
    });
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(planes.in);
  const bool last = keeps_channels_last && planes.channels_last;
  PTERON_ASSIGN_OR_RETURN(out, finish(std::move(out), last));
  PTERON_ASSIGN_OR_RETURN(argmax, finish(std::move(argmax), last));
  *values = out.release();
  *indices = argmax.release();
  return Error::Ok;
}

Error adaptive_maximum_shim(AtenTensorHandle self, IntArrayRef output_size, size_t dims,
                            bool keeps_channels_last, AtenTensorHandle* values,
                            AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(aoti::read_adaptive(output_size, dims, &planes.shape));
  return run_maximum(std::move(planes), self->dtype(), true, keeps_channels_last, values, indices);
}

Error maximum_shim(AtenTensorHandle self, const PoolingWindows& windows, size_t dims,
                   AtenTensorHandle* values, AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(aoti::read_windows(*self, dims, windows, &planes.shape));
  return run_maximum(std::move(planes), self->dtype(), false, true, values, indices);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu__adaptive_avg_pool2d)
(AtenTensorHandle self, const int64_t* output_size, int64_t length, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu__adaptive_avg_pool2d", [&] {
    return adaptive_average_shim(self, {output_size, length}, 2, true, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu__adaptive_avg_pool3d)
(AtenTensorHandle self, const int64_t* output_size, int64_t length, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu__adaptive_avg_pool3d", [&] {
    return adaptive_average_shim(self, {output_size, length}, 3, false, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_adaptive_max_pool2d)
(AtenTensorHandle self, const int64_t* output_size, int64_t length, AtenTensorHandle* values,
 AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_adaptive_max_pool2d", [&] {
    return adaptive_maximum_shim(self, {output_size, length}, 2, true, values, indices);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_adaptive_max_pool3d)
(AtenTensorHandle self, const int64_t* output_size, int64_t length, AtenTensorHandle* values,
 AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_adaptive_max_pool3d", [&] {
    return adaptive_maximum_shim(self, {output_size, length}, 3, false, values, indices);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_avg_pool2d)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, int32_t ceil_mode,
 int32_t count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_avg_pool2d", [&] {
    return average_shim(self,
                        {{kernel, kernel_length},
                         {stride, stride_length},
                         {padding, padding_length},
                         {},
                         ceil_mode != 0},
                        count_include_pad != 0, divisor_override, 2, true, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_avg_pool3d)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, int32_t ceil_mode,
 int32_t count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_avg_pool3d", [&] {
    return average_shim(self,
                        {{kernel, kernel_length},
                         {stride, stride_length},
                         {padding, padding_length},
                         {},
                         ceil_mode != 0},
                        count_include_pad != 0, divisor_override, 3, false, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_max_pool2d_with_indices)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, const int64_t* dilation,
 int64_t dilation_length, int32_t ceil_mode, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_max_pool2d_with_indices", [&] {
    return maximum_shim(self,
                        {{kernel, kernel_length},
                         {stride, stride_length},
                         {padding, padding_length},
                         {dilation, dilation_length},
                         ceil_mode != 0},
                        2, values, indices);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_max_pool3d_with_indices)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, const int64_t* dilation,
 int64_t dilation_length, int32_t ceil_mode, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_max_pool3d_with_indices", [&] {
    return maximum_shim(self,
                        {{kernel, kernel_length},
                         {stride, stride_length},
                         {padding, padding_length},
                         {dilation, dilation_length},
                         ceil_mode != 0},
                        3, values, indices);
  });
}

}  // namespace pteron::cpu
