#include "pteron/runtime/core/evalue.h"

namespace pteron {

const char* name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::None:
      return "None";
    case ValueKind::Int:
      return "Int";
    case ValueKind::Double:
      return "Double";
    case ValueKind::Bool:
      return "Bool";
    case ValueKind::Tensor:
      return "Tensor";
    case ValueKind::String:
      return "String";
    case ValueKind::IntList:
      return "IntList";
    case ValueKind::DoubleList:
      return "DoubleList";
    case ValueKind::BoolList:
      return "BoolList";
    case ValueKind::TensorList:
      return "TensorList";
    case ValueKind::OptionalTensorList:
      return "OptionalTensorList";
  }
  return "Unknown";
}

}  // namespace pteron
