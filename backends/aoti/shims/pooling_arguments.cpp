#include "pteron/backends/aoti/shims/pooling_arguments.h"

#include <algorithm>

#include "pteron/backends/aoti/shims/arguments.h"

namespace pteron::aoti {
namespace {

using slim::SlimTensor;

// A list of one number holds for every dimension, an empty one means `otherwise`.
Error spread(IntArrayRef list, size_t dims, const char* name, int64_t least,
             const std::array<int64_t, 3>& otherwise, std::array<int64_t, 3>* values) {
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> numbers,
                          list_argument(list.values, list.length, name));
  if (numbers.empty()) {
    *values = otherwise;
    return Error::Ok;
  }
  PTERON_CHECK_OR_RETURN(numbers.size() == 1 || numbers.size() == dims, Error::InvalidArgument,
                         "%s has %zu numbers, expected %zu", name, numbers.size(), dims);
  for (size_t d = 0; d < dims; ++d) {
    const int64_t value = numbers[numbers.size() == 1 ? 0 : d];
    PTERON_CHECK_OR_RETURN(value >= least && value <= INT32_MAX, Error::InvalidArgument,
                           "%s is %lld, expected %lld to %d", name, static_cast<long long>(value),
                           static_cast<long long>(least), INT32_MAX);
    (*values)[3 - dims + d] = value;
  }
  return Error::Ok;
}

}  // namespace

Result<PoolingShape> pooling_shape(const SlimTensor& self, size_t dims) {
  PTERON_CHECK_OR_RETURN(self.dim() == dims + 1 || self.dim() == dims + 2, Error::InvalidArgument,
                         "self %s: expected %zu or %zu dimensions", self.describe().c_str(),
                         dims + 1, dims + 2);
  PoolingShape shape;
  const size_t leading = self.dim() - dims;
  for (size_t d = 0; d < dims; ++d) {
    shape.in[3 - dims + d] = self.size(leading + d);
    PTERON_CHECK_OR_RETURN(self.size(leading + d) > 0, Error::InvalidArgument,
                           "self %s has no elements in dimension %zu", self.describe().c_str(),
                           leading + d);
  }
  return shape;
}

Error read_adaptive(IntArrayRef output_size, size_t dims, PoolingShape* shape) {
  return spread(output_size, dims, "output_size", 0, {1, 1, 1}, &shape->out);
}

Error read_windows(const SlimTensor& self, size_t dims, const PoolingWindows& windows,
                   PoolingShape* shape) {
  PoolingShape& s = *shape;
  const std::array<int64_t, 3> ones{1, 1, 1}, zeros{0, 0, 0};
  PTERON_RETURN_IF_ERROR(spread(windows.kernel, dims, "kernel_size", 1, ones, &s.kernel));
  PTERON_RETURN_IF_ERROR(spread(windows.stride, dims, "stride", 1, s.kernel, &s.stride));
  PTERON_RETURN_IF_ERROR(spread(windows.padding, dims, "padding", 0, zeros, &s.padding));
  PTERON_RETURN_IF_ERROR(spread(windows.dilation, dims, "dilation", 1, ones, &s.dilation));
  for (size_t d = 0; d < 3; ++d) {
    const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    PTERON_CHECK_OR_RETURN(2 * s.padding[d] <= reach, Error::InvalidArgument,
                           "padding %lld is more than half of a window of %lld",
                           static_cast<long long>(s.padding[d]), static_cast<long long>(reach));
    const int64_t room = s.in[d] + 2 * s.padding[d] - reach;
    PTERON_CHECK_OR_RETURN(room >= 0 || (windows.ceil_mode && room + s.stride[d] > 0),
                           Error::InvalidArgument, "self %s: a window of %lld does not fit",
                           self.describe().c_str(), static_cast<long long>(reach));
    s.out[d] = (room + (windows.ceil_mode ? s.stride[d] - 1 : 0)) / s.stride[d] + 1;
    // The last window has to begin inside the input or its padding on the left.
    if (windows.ceil_mode && (s.out[d] - 1) * s.stride[d] >= s.in[d] + s.padding[d]) --s.out[d];
  }
  return Error::Ok;
}

size_t pooled_sizes(const SlimTensor& self, size_t dims, const PoolingShape& shape,
                    int64_t* sizes) {
  std::copy(self.sizes().begin(), self.sizes().end(), sizes);
  for (size_t d = 0; d < dims; ++d) sizes[self.dim() - dims + d] = shape.out[3 - dims + d];
  return self.dim();
}

}  // namespace pteron::aoti
