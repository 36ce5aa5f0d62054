#include "pteron/runtime/program_reader/tensor_storage.h"

#include <algorithm>
#include <array>

namespace pteron {

TensorStorage TensorStorage::of(const schema::Tensor& tensor) {
  TensorStorage storage;
  if (const schema::AllocationInfo* const allocation = tensor.allocation()) {
    storage.planned = true;
    storage.memory_id = allocation->memory_id();
    storage.offset = uint64_t{allocation->offset_high()} << 32 | allocation->offset_low();
  }
  if (tensor.data_index() > 0) {
    storage.contents = Contents::InFile;
    storage.data_index = tensor.data_index();
  }
  const schema::ExtraTensorInfo* const extra = tensor.extra();
  if (!extra) return storage;
  if (extra->location() == schema::TensorLocation::External) {
    storage.contents = Contents::External;
    storage.data_index = 0;
  }
  if (extra->fully_qualified_name()) storage.name = extra->fully_qualified_name()->string_view();
  storage.device.type = static_cast<DeviceType>(extra->device_type());
  // The device index is ignored for the CPU.
  if (storage.device.type != DeviceType::CPU) storage.device.index = extra->device_index();
  return storage;
}

namespace {

Error check_fields(const schema::Tensor& tensor) {
  constexpr Error::Code kInvalid = Error::InvalidProgram;
  PTERON_CHECK_OR_RETURN(tensor.sizes() && tensor.dim_order(), kInvalid,
                         "it has no sizes or no dim order");
  PTERON_CHECK_OR_RETURN(tensor.sizes()->size() <= kMaxTensorDims, kInvalid,
                         "it has %u dimensions, at most %zu are possible", tensor.sizes()->size(),
                         kMaxTensorDims);
  PTERON_CHECK_OR_RETURN(tensor.storage_offset() == 0, kInvalid, "its storage offset is %d, not 0",
                         tensor.storage_offset());
  PTERON_CHECK_OR_RETURN(tensor.layout() == 0, kInvalid, "its layout is %d, only 0 is known",
                         tensor.layout());
  PTERON_CHECK_OR_RETURN(tensor.shape_dynamism() != schema::ShapeDynamism::DynamicUnbound,
                         Error::NotSupported,
                         "its shape is unbounded; give every dynamic dimension an upper bound");
  PTERON_CHECK_OR_RETURN(tensor.shape_dynamism() == schema::ShapeDynamism::Static ||
                             tensor.shape_dynamism() == schema::ShapeDynamism::DynamicBound,
                         kInvalid, "its shape dynamism is %d, known are 0 to 2",
                         static_cast<int>(tensor.shape_dynamism()));
  const schema::ExtraTensorInfo* const extra = tensor.extra();
  if (!extra) return Error::Ok;
  PTERON_CHECK_OR_RETURN(extra->location() == schema::TensorLocation::InFile ||
                             extra->location() == schema::TensorLocation::External,
                         kInvalid, "its location is %d, known are 0 and 1",
                         static_cast<int>(extra->location()));
  PTERON_CHECK_OR_RETURN(is_valid(static_cast<DeviceType>(extra->device_type())), kInvalid,
                         "its device type is %d, known are 0 and 1",
                         static_cast<int>(extra->device_type()));
  PTERON_CHECK_OR_RETURN(
      extra->device_type() == schema::DeviceType::CPU || extra->device_index() >= 0, kInvalid,
      "its device index is %d", extra->device_index());
  return Error::Ok;
}

}  // namespace

Result<Tensor> make_tensor(const schema::Tensor& tensor, const DeviceMap& devices) {
  PTERON_RETURN_IF_ERROR(check_fields(tensor));
  std::array<int64_t, kMaxTensorDims> sizes;
  std::copy(tensor.sizes()->begin(), tensor.sizes()->end(), sizes.begin());
  Result<Tensor> made = Tensor::make(static_cast<ScalarType>(tensor.scalar_type()),
                                     {sizes.data(), tensor.sizes()->size()},
                                     {tensor.dim_order()->data(), tensor.dim_order()->size()},
                                     nullptr, devices[TensorStorage::of(tensor).device],
                                     static_cast<ShapeDynamism>(tensor.shape_dynamism()));
  if (!made.ok()) return Error(Error::InvalidProgram, made.error().message());
  return made;
}

}  // namespace pteron
