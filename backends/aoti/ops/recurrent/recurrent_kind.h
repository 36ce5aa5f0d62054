// The kinds of recurrent layers.
#pragma once

namespace pteron::aoti {

// 4 gates, 3, and 1 with tanh or relu.
enum class RecurrentKind { kLstm, kGru, kTanh, kRelu };

constexpr int gates_of(RecurrentKind kind) {
  return kind == RecurrentKind::kLstm ? 4 : kind == RecurrentKind::kGru ? 3 : 1;
}

}  // namespace pteron::aoti
