// A value of a method: what an instruction reads or writes.
//
//   EValue value(tensor);
//   if (value.is_tensor()) use(value.tensor());
//
// A tensor is stored inline; lists and strings are borrowed (from the program or the method) and
// must outlive the value. Elements of a boxed list refer to other values, so that sizes computed at
// run time can appear in them. Copying allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron {

class EValue;

// Distinct types for lists with the same representation.
struct IntList {
  Span<EValue* const> items;  // each an int
};
struct TensorList {
  Span<EValue* const> items;  // each a tensor
};
struct OptionalTensorList {
  Span<EValue* const> items;  // each a tensor, or a null pointer for "none"
};
struct DoubleList {
  Span<const double> items;
};
struct BoolList {
  Span<const bool> items;
};

// The kind of an EValue. Values are our own, not those of the program format.
enum class ValueKind : uint8_t {
  None,
  Int,
  Double,
  Bool,
  Tensor,
  String,
  IntList,
  DoubleList,
  BoolList,
  TensorList,
  OptionalTensorList,
};

// "None", "Int", "Tensor", ...: for messages.
const char* name_of(ValueKind kind);

class EValue final {
 public:
  EValue() = default;  // None
  explicit EValue(int64_t value) : payload_(value) {}
  explicit EValue(double value) : payload_(value) {}
  explicit EValue(bool value) : payload_(value) {}
  EValue(Tensor value) : payload_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // The tensor, which is not kept; None for a null pointer.
  EValue(const std::shared_ptr<Tensor>& value) {  // NOLINT(google-explicit-constructor)
    if (value) payload_ = *value;
  }
  explicit EValue(std::string_view value) : payload_(value) {}  // borrowed
  explicit EValue(IntList value) : payload_(value) {}
  explicit EValue(DoubleList value) : payload_(value) {}
  explicit EValue(BoolList value) : payload_(value) {}
  explicit EValue(TensorList value) : payload_(value) {}
  explicit EValue(OptionalTensorList value) : payload_(value) {}

  bool is_none() const { return std::holds_alternative<std::monostate>(payload_); }
  bool is_int() const { return std::holds_alternative<int64_t>(payload_); }
  bool is_double() const { return std::holds_alternative<double>(payload_); }
  bool is_bool() const { return std::holds_alternative<bool>(payload_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(payload_); }
  bool is_string() const { return std::holds_alternative<std::string_view>(payload_); }
  bool is_int_list() const { return std::holds_alternative<IntList>(payload_); }
  bool is_double_list() const { return std::holds_alternative<DoubleList>(payload_); }
  bool is_bool_list() const { return std::holds_alternative<BoolList>(payload_); }
  bool is_tensor_list() const { return std::holds_alternative<TensorList>(payload_); }
  bool is_optional_tensor_list() const {
    return std::holds_alternative<OptionalTensorList>(payload_);
  }

  // Each only when the matching is_*() holds; otherwise undefined.
  int64_t to_int() const { return *std::get_if<int64_t>(&payload_); }
  double to_double() const { return *std::get_if<double>(&payload_); }
  bool to_bool() const { return *std::get_if<bool>(&payload_); }
  std::string_view to_string() const { return *std::get_if<std::string_view>(&payload_); }
  Tensor& tensor() { return *std::get_if<Tensor>(&payload_); }
  const Tensor& tensor() const { return *std::get_if<Tensor>(&payload_); }
  const IntList& to_int_list() const { return *std::get_if<IntList>(&payload_); }
  const DoubleList& to_double_list() const { return *std::get_if<DoubleList>(&payload_); }
  const BoolList& to_bool_list() const { return *std::get_if<BoolList>(&payload_); }
  const TensorList& to_tensor_list() const { return *std::get_if<TensorList>(&payload_); }
  const OptionalTensorList& to_optional_tensor_list() const {
    return *std::get_if<OptionalTensorList>(&payload_);
  }

  ValueKind value_kind() const { return static_cast<ValueKind>(payload_.index()); }
  // "None", "Int", "Tensor", ...: the kind, for messages.
  const char* kind() const { return name_of(value_kind()); }

 private:
  // In the order of ValueKind.
  std::variant<std::monostate, int64_t, double, bool, Tensor, std::string_view, IntList, DoubleList,
               BoolList, TensorList, OptionalTensorList>
      payload_;
  static_assert(std::variant_size_v<decltype(payload_)> ==
                static_cast<size_t>(ValueKind::OptionalTensorList) + 1);
};

}  // namespace pteron
