#include "pteron/runtime/kernel/portable/promotion.h"

#include <algorithm>
#include <array>
#include <optional>

#include "pteron/runtime/kernel/convert.h"

namespace pteron::kernels {
namespace {

bool is_unsigned(ScalarType dtype) {
  return dtype == ScalarType::Byte || dtype == ScalarType::UInt16 || dtype == ScalarType::UInt32 ||
         dtype == ScalarType::UInt64;
}

ScalarType promoted_integers(ScalarType a, ScalarType b) {
  if (element_size(a) < element_size(b)) std::swap(a, b);
  if (!is_unsigned(a) || is_unsigned(b)) return a;
  // Unsigned, and a signed one that is no wider: the next wider signed type holds both.
  switch (element_size(a)) {
    case 1:
      return ScalarType::Short;
    case 2:
      return ScalarType::Int;
    default:
      return ScalarType::Long;
  }
}

}  // namespace

ScalarType promoted(ScalarType a, ScalarType b) {
  if (a == b || b == ScalarType::Bool) return a;
  if (a == ScalarType::Bool) return b;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (!is_floating(a)) return promoted_integers(a, b);
  // Two formats of one size have no common one but float.
  if (element_size(a) == element_size(b)) return ScalarType::Float;
  return element_size(a) > element_size(b) ? a : b;
}

ScalarType result_type(std::initializer_list<const Operand*> operands) {
  std::array<std::optional<ScalarType>, 3> by_rank;
  for (const Operand* operand : operands) {
    ScalarType dtype = operand->view().dtype;
    if (operand->rank() == 0 && dtype == ScalarType::Double) dtype = ScalarType::Float;
    std::optional<ScalarType>& found = by_rank[static_cast<size_t>(operand->rank())];
    found = found ? promoted(*found, dtype) : dtype;
  }
  std::optional<ScalarType> result;
  for (size_t rank = 3; rank-- > 0;) {
    const std::optional<ScalarType>& lower = by_rank[rank];
    if (!lower) continue;
    // A lower rank counts only when it is of a higher category: bool, integer, floating.
    const bool widens =
        !result || *result == ScalarType::Bool || (is_floating(*lower) && !is_floating(*result));
    if (widens) result = result ? promoted(*result, *lower) : *lower;
  }
  return result.value_or(ScalarType::Float);
}

}  // namespace pteron::kernels
