#include "pteron/runtime/core/evalue.h"

#include <cstddef>
#include <iterator>

namespace pteron {

const char* name_of(ValueKind kind) {
  static constexpr const char* kNames[] = {"None",
                                           "Int",
                                           "Double",
                                           "Bool",
                                           "Tensor",
                                           "String",
                                           "IntList",
                                           "DoubleList",
                                           "BoolList",
                                           "TensorList",
                                           "OptionalTensorList"};
  const auto index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "Unknown";
}

}  // namespace pteron
