// Pooling of images and volumes. Results are channels-last where the input is, as torch has it for
// each of them.
#include <algorithm>

#include "backends/aoti/shims/shim_export.h"
#include "backends/aoti/slim/core/strided_copy.h"
#include "backends/cpu/runtime/kernels/parallel.h"
#include "backends/cpu/runtime/kernels/pooling.h"
#include "backends/cpu/runtime/shims/cpu_arguments.h"
#include "backends/cpu/runtime/shims/memory_format.h"

namespace pteron::cpu {
namespace {

struct IntList {
  const int64_t* values;
  int64_t length;
};

// A list of one number holds for every dimension, an empty one means `otherwise`.
Error spread(IntList list, size_t dims, const char* name, int64_t least,
             const std::array<int64_t, 3>& otherwise, std::array<int64_t, 3>* values) {
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> numbers,
                          aoti::list_argument(list.values, list.length, name));
  if (numbers.empty()) {
    *values = otherwise;
    return Error::Ok;
  }
  PTERON_CHECK_OR_RETURN(numbers.size() == 1 || numbers.size() == dims, Error::InvalidArgument,
                         "%s has %zu numbers, expected %zu", name, numbers.size(), dims);
  for (size_t d = 0; d < dims; ++d) {
    const int64_t value = numbers[numbers.size() == 1 ? 0 : d];
    PTERON_CHECK_OR_RETURN(value >= least && value <= INT32_MAX, Error::InvalidArgument,
                           "%s is %lld", name, static_cast<long long>(value));
    (*values)[3 - dims + d] = value;
  }
  return Error::Ok;
}

// An input of `dims` spatial dimensions, with channels and perhaps a batch.
struct Planes {
  TensorPtr in;  // row-major
  PoolingShape shape;
  size_t dims;
  int64_t count;
  bool channels_last;

  // The input's sizes, with those of the result.
  size_t out_sizes(int64_t* sizes) const {
    const size_t rank = in->dim();
    std::copy(in->sizes().begin(), in->sizes().end(), sizes);
    for (size_t d = 0; d < dims; ++d) sizes[rank - dims + d] = shape.out[3 - dims + d];
    return rank;
  }
};

Result<Planes> read_planes(AtenTensorHandle self, size_t dims) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_CHECK_OR_RETURN(self->dim() == dims + 1 || self->dim() == dims + 2, Error::InvalidArgument,
                         "self %s: expected %zu or %zu dimensions", self->describe().c_str(),
                         dims + 1, dims + 2);
  Planes planes;
  planes.dims = dims;
  planes.count = 1;
  const size_t leading = self->dim() - dims;
  for (size_t d = 0; d < leading; ++d) planes.count *= self->size(d);
  for (size_t d = 0; d < dims; ++d) {
    planes.shape.in[3 - dims + d] = self->size(leading + d);
    PTERON_CHECK_OR_RETURN(self->size(leading + d) > 0, Error::InvalidArgument,
                           "self %s has no elements in dimension %zu", self->describe().c_str(),
                           leading + d);
  }
  planes.channels_last = self->dim() == dims + 2 && is_channels_last(*self);
  PTERON_ASSIGN_OR_RETURN(planes.in, slim::contiguous_tensor(*self));
  return planes;
}

Result<TensorPtr> make_result(const Planes& planes, DType dtype) {
  int64_t sizes[slim::kMaxDims];
  const size_t rank = planes.out_sizes(sizes);
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

// Sizes of windows that slide.
Error read_windows(Planes* planes, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode) {
  PoolingShape& s = planes->shape;
  const std::array<int64_t, 3> ones{1, 1, 1}, zeros{0, 0, 0};
  PTERON_RETURN_IF_ERROR(spread(kernel, planes->dims, "kernel_size", 1, ones, &s.kernel));
  PTERON_RETURN_IF_ERROR(spread(stride, planes->dims, "stride", 1, s.kernel, &s.stride));
  PTERON_RETURN_IF_ERROR(spread(padding, planes->dims, "padding", 0, zeros, &s.padding));
  PTERON_RETURN_IF_ERROR(spread(dilation, planes->dims, "dilation", 1, ones, &s.dilation));
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    PTERON_CHECK_OR_RETURN(2 * s.padding[d] <= reach, Error::InvalidArgument,
                           "padding %lld is more than half of a window of %lld",
                           static_cast<long long>(s.padding[d]), static_cast<long long>(reach));
    const int64_t room = s.in[d] + 2 * s.padding[d] - reach;
    PTERON_CHECK_OR_RETURN(room >= 0 || (ceil_mode && room + s.stride[d] > 0),
                           Error::InvalidArgument, "%s: the window does not fit",
                           planes->in->describe().c_str());
    s.out[d] = (room + (ceil_mode ? s.stride[d] - 1 : 0)) / s.stride[d] + 1;
    // The last window has to begin inside the input or its padding on the left.
    if (ceil_mode && (s.out[d] - 1) * s.stride[d] >= s.in[d] + s.padding[d]) --s.out[d];
  }
  return Error::Ok;
}

Error adaptive_average_shim(AtenTensorHandle self, IntList output_size, size_t dims,
                            bool keeps_channels_last, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(spread(output_size, dims, "output_size", 0, {1, 1, 1}, &planes.shape.out));
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

Error average_shim(AtenTensorHandle self, IntList kernel, IntList stride, IntList padding,
                   bool ceil_mode, bool count_include_pad, const int64_t* divisor, size_t dims,
                   bool keeps_channels_last, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_CHECK_OR_RETURN(!divisor || *divisor != 0, Error::InvalidArgument, "divisor 0");
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(read_windows(&planes, kernel, stride, padding, {nullptr, 0}, ceil_mode));
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
  PTERON_ASSIGN_OR_RETURN(TensorPtr places, make_result(planes, DType::Long));
  bool done = false;
  PTERON_DISPATCH_REAL(dtype, T, {
    for_each_plane(planes, [&](int64_t p) {
      const T* in = planes.in->data_as<T>() + p * planes.shape.in_area();
      T* value = out->data_as<T>() + p * planes.shape.out_area();
      int64_t* index = places->data_as<int64_t>() + p * planes.shape.out_area();
      (adaptive ? adaptive_maximum<T> : maximum<T>)(planes.shape, in, value, index);
    });
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(planes.in);
  const bool last = keeps_channels_last && planes.channels_last;
  PTERON_ASSIGN_OR_RETURN(out, finish(std::move(out), last));
  PTERON_ASSIGN_OR_RETURN(places, finish(std::move(places), last));
  *values = out.release();
  *indices = places.release();
  return Error::Ok;
}

Error adaptive_maximum_shim(AtenTensorHandle self, IntList output_size, size_t dims,
                            bool keeps_channels_last, AtenTensorHandle* values,
                            AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(spread(output_size, dims, "output_size", 0, {1, 1, 1}, &planes.shape.out));
  return run_maximum(std::move(planes), self->dtype(), true, keeps_channels_last, values, indices);
}

Error maximum_shim(AtenTensorHandle self, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode, size_t dims, AtenTensorHandle* values,
                   AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(Planes planes, read_planes(self, dims));
  PTERON_RETURN_IF_ERROR(read_windows(&planes, kernel, stride, padding, dilation, ceil_mode));
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
    return average_shim(self, {kernel, kernel_length}, {stride, stride_length},
                        {padding, padding_length}, ceil_mode != 0, count_include_pad != 0,
                        divisor_override, 2, true, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_avg_pool3d)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, int32_t ceil_mode,
 int32_t count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_avg_pool3d", [&] {
    return average_shim(self, {kernel, kernel_length}, {stride, stride_length},
                        {padding, padding_length}, ceil_mode != 0, count_include_pad != 0,
                        divisor_override, 3, false, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_max_pool2d_with_indices)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, const int64_t* dilation,
 int64_t dilation_length, int32_t ceil_mode, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_max_pool2d_with_indices", [&] {
    return maximum_shim(self, {kernel, kernel_length}, {stride, stride_length},
                        {padding, padding_length}, {dilation, dilation_length}, ceil_mode != 0, 2,
                        values, indices);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_max_pool3d_with_indices)
(AtenTensorHandle self, const int64_t* kernel, int64_t kernel_length, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, const int64_t* dilation,
 int64_t dilation_length, int32_t ceil_mode, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_max_pool3d_with_indices", [&] {
    return maximum_shim(self, {kernel, kernel_length}, {stride, stride_length},
                        {padding, padding_length}, {dilation, dilation_length}, ceil_mode != 0, 3,
                        values, indices);
  });
}

}  // namespace pteron::cpu
