#include "pteron/runtime/kernel/portable/arguments.h"

#include <iterator>
#include <string>

namespace pteron::kernels {
namespace {

uint16_t kind_of(const EValue& value) {
  switch (value.value_kind()) {
    case ValueKind::Int:
      return kInt;
    case ValueKind::Double:
      return kDouble;
    case ValueKind::Bool:
      return kBool;
    case ValueKind::Tensor:
      return kTensor;
    case ValueKind::IntList:
      return kIntList;
    default:
      return 0;
  }
}

std::string describe_kinds(uint16_t kinds) {
  static constexpr const char* kNames[] = {"Tensor", "Int", "Double", "Bool", "IntList"};
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

// Kernels resize outputs before they read their inputs.
Error check_written(Span<EValue* const> arguments, size_t written, size_t count) {
  PTERON_CHECK_OR_RETURN(!arguments[written]->tensor().is_constant(), Error::InvalidArgument,
                         "argument %zu is read-only (a constant of the program, or an input over "
                         "memory that its owner lets nobody write), and is written",
                         written);
  for (size_t i = 0; i < count; ++i) {
    PTERON_CHECK_OR_RETURN(i == written || arguments[i] != arguments[written],
                           Error::InvalidArgument,
                           "argument %zu is also argument %zu, which is written", i, written);
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
    if (found == kTensor && !(kinds[i] & kHandle))
      PTERON_RETURN_IF_ERROR(check_tensor(i, value.tensor()));
    if (found == kIntList) {
      for (const EValue* item : value.to_int_list().items) {
        PTERON_CHECK_OR_RETURN(item->is_int(), Error::InvalidType,
                               "argument %zu is a list with an item that is %s, expected Int", i,
                               name_of(item->value_kind()));
      }
    }
    if (kinds[i] & kWritten) PTERON_RETURN_IF_ERROR(check_written(arguments, i, count));
  }
  return Error::Ok;
}

}  // namespace pteron::kernels
