#include "pteron/backends/aoti/ops/parameters.h"

namespace pteron::aoti {

Error CallDevice::check(AtenTensorHandle tensor, const char* name) {
  PTERON_RETURN_IF_ERROR(check_defined(tensor, name));
  const Device device = tensor->device();
  PTERON_CHECK_OR_RETURN(device.type == type_, Error::InvalidArgument,
                         "found %s on device type %d, expected %d", name,
                         static_cast<int>(device.type), static_cast<int>(type_));
  if (!first_) {
    first_ = tensor;
    first_name_ = name;
  }
  PTERON_CHECK_OR_RETURN(device == first_->device(), Error::InvalidArgument,
                         "found %s on device %d and %s on device %d, expected one device", name,
                         device.index, first_name_, first_->device().index);
  return Error::Ok;
}

namespace parameter {

Error Dtype::check(CallDevice&) {
  PTERON_ASSIGN_OR_RETURN(dtype_, dtype_argument(value_));
  return Error::Ok;
}

Error OptionalDtype::check(CallDevice&) {
  if (!value_) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(dtype_, dtype_argument(*value_));
  return Error::Ok;
}

Error OptionalDevice::check(CallDevice& device) {
  const auto type = static_cast<int32_t>(device.type());
  PTERON_ASSIGN_OR_RETURN(device_, device_argument(value_ ? *value_ : type, value_ ? index_ : -1));
  PTERON_CHECK_OR_RETURN(device_.type == device.type(), Error::InvalidArgument,
                         "found %s of type %d, expected %d", name_, static_cast<int>(device_.type),
                         type);
  return Error::Ok;
}

Error Generator::check(CallDevice&) {
  PTERON_CHECK_OR_RETURN(!value_, Error::NotSupported,
                         "found a %s, expected none: random numbers have no seed of the model's",
                         name_);
  return Error::Ok;
}

Error OptionalTensorList::check(CallDevice& device) {
  PTERON_RETURN_IF_ERROR(List::check(device));
  tensors_.reserve(static_cast<size_t>(length_));
  for (const AtenTensorHandle* tensor : List::get()) {
    const bool absent = !tensor || !*tensor || !(*tensor)->is_defined();
    if (!absent) PTERON_RETURN_IF_ERROR(device.check(*tensor, name_));
    tensors_.push_back(absent ? nullptr : *tensor);
  }
  return Error::Ok;
}

}  // namespace parameter
}  // namespace pteron::aoti
