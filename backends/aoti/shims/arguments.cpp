#include "pteron/backends/aoti/shims/arguments.h"

namespace pteron::aoti {

Result<slim::DType> dtype_argument(int32_t dtype) {
  slim::DType result;
  PTERON_CHECK_OR_RETURN(slim::to_dtype(dtype, &result), Error::InvalidType,
                         "dtype %d is not supported by this runtime", dtype);
  return result;
}

Result<Device> device_argument(int32_t device_type, int32_t device_index) {
  // There is one of each.
  const bool is_single = device_type == static_cast<int32_t>(DeviceType::CPU) ||
                         device_type == static_cast<int32_t>(DeviceType::Metal);
  PTERON_CHECK_OR_RETURN(device_type >= 0 && device_type <= INT8_MAX, Error::InvalidArgument,
                         "device type %d is not supported by this runtime", device_type);
  PTERON_CHECK_OR_RETURN(
      device_index >= -1 && device_index <= INT8_MAX && (!is_single || device_index <= 0),
      Error::InvalidArgument, "device index %d of device type %d", device_index, device_type);
  return Device{static_cast<DeviceType>(device_type),
                static_cast<int8_t>(is_single ? 0 : device_index)};
}

Result<Span<const int64_t>> list_argument(const int64_t* values, int64_t length, const char* name) {
  PTERON_CHECK_OR_RETURN(length >= 0 && (length == 0 || values), Error::InvalidArgument,
                         "%s: %lld numbers at %p", name, static_cast<long long>(length),
                         static_cast<const void*>(values));
  return Span<const int64_t>(values, static_cast<size_t>(length));
}

Result<size_t> dim_argument(int64_t dim, size_t rank) {
  const auto n = static_cast<int64_t>(rank == 0 ? 1 : rank);
  PTERON_CHECK_OR_RETURN(dim >= -n && dim < n, Error::InvalidArgument,
                         "dimension %lld of a tensor of rank %zu", static_cast<long long>(dim),
                         rank);
  return static_cast<size_t>(dim < 0 ? dim + n : dim);
}

}  // namespace pteron::aoti
