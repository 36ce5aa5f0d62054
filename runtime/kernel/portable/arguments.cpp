#include "pteron/runtime/kernel/portable/arguments.h"

#include <algorithm>
#include <string>

namespace pteron::kernels {
namespace {

uint16_t kind_of(const EValue& value) {
  switch (value.value_kind()) {
    case ValueKind::None:
      return kNone;
    case ValueKind::Int:
      return kInt;
    case ValueKind::Double:
      return kDouble;
    case ValueKind::Bool:
      return kBool;
    case ValueKind::Tensor:
      return kTensor;
    case ValueKind::String:
      return kString;
    case ValueKind::IntList:
      return kIntList;
    case ValueKind::TensorList:
      return kTensorList;
    case ValueKind::OptionalTensorList:
      return kOptionalTensorList;
    case ValueKind::DoubleList:
    case ValueKind::BoolList:
      break;
  }
  return 0;
}

std::string describe_kinds(uint16_t kinds) {
  static constexpr const char* kNames[] = {"Tensor", "Int",     "Double",     "Bool",
                                           "String", "IntList", "TensorList", "OptionalTensorList",
                                           "None"};
  std::string text;
  for (size_t bit = 0; bit < std::size(kNames); ++bit) {
    if (kinds & (1u << bit)) text += (text.empty() ? "" : " or ") + std::string(kNames[bit]);
  }
  return text;
}

Error check_tensor(size_t index, const Tensor& tensor) {
  PTERON_CHECK_OR_RETURN(
      tensor.device().type == DeviceType::CPU, Error::NotSupported,
      "argument %zu is on a device, and kernels of the runtime run on the CPU; copy "
      "it to the host first",
      index);
  PTERON_CHECK_OR_RETURN(tensor.data() || tensor.numel() == 0, Error::InvalidState,
                         "argument %zu, %s, has no memory", index, tensor.describe().c_str());
  return Error::Ok;
}

Error check_items(size_t index, Span<EValue* const> items, uint16_t kind, uint16_t or_null) {
  for (const EValue* item : items) {
    if (!item && or_null) continue;
    const uint16_t found = item ? kind_of(*item) : 0;
    PTERON_CHECK_OR_RETURN(found & (kind | or_null), Error::InvalidType,
                           "argument %zu is a list with an item that is %s, expected %s", index,
                           item ? name_of(item->value_kind()) : "missing",
                           describe_kinds(kind).c_str());
    if (item->is_tensor()) PTERON_RETURN_IF_ERROR(check_tensor(index, item->tensor()));
  }
  return Error::Ok;
}

bool is_in(const EValue* value, const EValue& argument) {
  const auto has = [value](Span<EValue* const> items) {
    return std::find(items.begin(), items.end(), value) != items.end();
  };
  return value == &argument ||
         (argument.is_tensor_list() && has(argument.to_tensor_list().items)) ||
         (argument.is_optional_tensor_list() && has(argument.to_optional_tensor_list().items));
}

// Kernels give outputs new sizes before they read their inputs.
Error check_written(Span<EValue* const> arguments, size_t written, size_t count) {
  const EValue& target = *arguments[written];
  const EValue* const single[] = {&target};
  Span<const EValue* const> tensors(single);
  if (target.is_tensor_list()) {
    const Span<EValue* const> items = target.to_tensor_list().items;
    tensors = {items.data(), items.size()};
  }
  for (const EValue* tensor : tensors) {
    PTERON_CHECK_OR_RETURN(!tensor->tensor().is_constant(), Error::InvalidArgument,
                           "argument %zu is a constant of the program, and is written", written);
  }
  for (size_t i = 0; i < count; ++i) {
    for (const EValue* tensor : tensors) {
      PTERON_CHECK_OR_RETURN(i == written || !is_in(tensor, *arguments[i]), Error::InvalidArgument,
                             "argument %zu is also argument %zu, which is written", i, written);
    }
  }
  return Error::Ok;
}

}  // namespace

Error check_arguments(Span<EValue* const> arguments, const uint16_t* kinds, size_t count) {
  PTERON_CHECK_OR_RETURN(arguments.size() >= count, Error::InvalidArgument,
                         "found %zu arguments, expected %zu", arguments.size(), count);
  for (size_t i = 0; i < count; ++i) {
    if (kinds[i] & kAnything) continue;
    const EValue& value = *arguments[i];
    const uint16_t found = kind_of(value);
    PTERON_CHECK_OR_RETURN(found & kinds[i], Error::InvalidType, "argument %zu is %s, expected %s",
                           i, name_of(value.value_kind()), describe_kinds(kinds[i]).c_str());
    switch (found) {
      case kTensor:
        PTERON_RETURN_IF_ERROR(check_tensor(i, value.tensor()));
        break;
      case kIntList:
        PTERON_RETURN_IF_ERROR(check_items(i, value.to_int_list().items, kInt, 0));
        break;
      case kTensorList:
        PTERON_RETURN_IF_ERROR(check_items(i, value.to_tensor_list().items, kTensor, 0));
        break;
      case kOptionalTensorList:
        PTERON_RETURN_IF_ERROR(
            check_items(i, value.to_optional_tensor_list().items, kTensor, kNone));
        break;
      default:
        break;
    }
    if (kinds[i] & kWritten) PTERON_RETURN_IF_ERROR(check_written(arguments, i, count));
  }
  return Error::Ok;
}

}  // namespace pteron::kernels
