// Typed kernels behind the one signature of the registry.
//
//   PTERON_DEFINE_KERNEL(add_out,
//                        (const Tensor& self, const Tensor& other, Scalar alpha, Tensor& out)) {
//     ...
//     return Error::Ok;
//   }
//
// defines add_out(KernelContext&, Span<EValue* const>), which checks number, kinds and memory of
// all arguments before it calls the body. A first parameter `KernelContext& context` is passed
// through.
//
// Parameters and what a program may give for them:
//   const Tensor&, Tensor&     a tensor on the CPU, with memory
//   const Tensor*              the same, or None (null)
//   int64_t, double, bool      Int; Double or Int; Bool
//   Scalar                     Int, Double or Bool
//   std::string_view           String
//   Ints                       IntList
//   Outs                       TensorList, to be written
//   Tensors, OptionalTensors   TensorList; OptionalTensorList or TensorList
//   std::optional<T>           any of the values above, or None
//   Ignored                    anything
//   EValue&                    anything, to be written
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/kernel/kernel_context.h"

namespace pteron::kernels {

// A number of a program: int64, double or bool.
class Scalar final {
 public:
  Scalar(int64_t value) : dtype_(ScalarType::Long), int_(value) {}      // NOLINT
  Scalar(double value) : dtype_(ScalarType::Double), double_(value) {}  // NOLINT
  Scalar(bool value) : dtype_(ScalarType::Bool), int_(value) {}         // NOLINT

  ScalarType dtype() const { return dtype_; }
  // Of `dtype()`: an int64_t (0 or 1 for a bool) or a double.
  const void* data() const {
    return dtype_ == ScalarType::Double ? static_cast<const void*>(&double_) : &int_;
  }
  template <typename T>
  T to() const {
    return dtype_ == ScalarType::Double ? static_cast<T>(double_) : static_cast<T>(int_);
  }

 private:
  ScalarType dtype_;
  union {
    int64_t int_;
    double double_;
  };
};

// Items of a boxed list, all of them ints.
struct Ints {
  Span<EValue* const> items;
  size_t size() const { return items.size(); }
  int64_t operator[](size_t i) const { return items[i]->to_int(); }
};

struct Tensors {
  Span<EValue* const> items;
  size_t size() const { return items.size(); }
  Tensor& operator[](size_t i) const { return items[i]->tensor(); }
};

// The same, to be written.
struct Outs : Tensors {};

struct OptionalTensors {
  Span<EValue* const> items;
  size_t size() const { return items.size(); }
  const Tensor* operator[](size_t i) const {
    return items[i] && items[i]->is_tensor() ? &items[i]->tensor() : nullptr;
  }
};

struct Ignored {};

// What an argument may hold, as bits, for the one check that all kernels share.
enum ArgumentKind : uint16_t {
  kTensor = 1 << 0,
  kInt = 1 << 1,
  kDouble = 1 << 2,
  kBool = 1 << 3,
  kString = 1 << 4,
  kIntList = 1 << 5,
  kTensorList = 1 << 6,
  kOptionalTensorList = 1 << 7,
  kNone = 1 << 8,
  kAnything = 1 << 9,
  kWritten = 1 << 10,  // a tensor or list that no other argument may be, too
};

template <typename T>
struct Argument;

#define PTERON_ARGUMENT(type, kinds, expression)          \
  template <>                                             \
  struct Argument<type> {                                 \
    static constexpr uint16_t kKinds = kinds;             \
    static type get(EValue& value) { return expression; } \
  }
PTERON_ARGUMENT(const Tensor&, kTensor, value.tensor());
PTERON_ARGUMENT(Tensor&, kTensor | kWritten, value.tensor());
PTERON_ARGUMENT(const Tensor*, kTensor | kNone, value.is_tensor() ? &value.tensor() : nullptr);
PTERON_ARGUMENT(int64_t, kInt, value.to_int());
PTERON_ARGUMENT(double, kDouble | kInt,
                value.is_int() ? static_cast<double>(value.to_int()) : value.to_double());
PTERON_ARGUMENT(bool, kBool, value.to_bool());
PTERON_ARGUMENT(Scalar, kInt | kDouble | kBool,
                value.is_int()      ? Scalar(value.to_int())
                : value.is_double() ? Scalar(value.to_double())
                                    : Scalar(value.to_bool()));
PTERON_ARGUMENT(std::string_view, kString, value.to_string());
PTERON_ARGUMENT(Ints, kIntList, Ints{value.to_int_list().items});
PTERON_ARGUMENT(Tensors, kTensorList, Tensors{value.to_tensor_list().items});
PTERON_ARGUMENT(Outs, kTensorList | kWritten, Outs{{value.to_tensor_list().items}});
PTERON_ARGUMENT(OptionalTensors, kOptionalTensorList | kTensorList,
                OptionalTensors{value.is_tensor_list() ? value.to_tensor_list().items
                                                       : value.to_optional_tensor_list().items});
PTERON_ARGUMENT(Ignored, kAnything, ((void)value, Ignored{}));
PTERON_ARGUMENT(EValue&, kAnything, value);
#undef PTERON_ARGUMENT

template <typename T>
struct Argument<std::optional<T>> {
  static constexpr uint16_t kKinds = Argument<T>::kKinds | kNone;
  static std::optional<T> get(EValue& value) {
    if (value.is_none()) return std::nullopt;
    return Argument<T>::get(value);
  }
};

// InvalidArgument or InvalidType: another number of arguments (what the operator returns follows
// the `count` of its schema and may be missing), another kind, a tensor without memory or on a
// device, a tensor that is read and written.
Error check_arguments(Span<EValue* const> arguments, const uint16_t* kinds, size_t count);

template <typename... Parameters, size_t... I>
Error call_typed(Error (*kernel)(Parameters...), Span<EValue* const> arguments,
                 std::index_sequence<I...>) {
  static constexpr uint16_t kKinds[] = {Argument<Parameters>::kKinds...};
  PTERON_RETURN_IF_ERROR(check_arguments(arguments, kKinds, sizeof...(Parameters)));
  return kernel(Argument<Parameters>::get(*arguments[I])...);
}

template <typename... Parameters, size_t... I>
Error call_typed(Error (*kernel)(KernelContext&, Parameters...), KernelContext& context,
                 Span<EValue* const> arguments, std::index_sequence<I...>) {
  static constexpr uint16_t kKinds[] = {Argument<Parameters>::kKinds...};
  PTERON_RETURN_IF_ERROR(check_arguments(arguments, kKinds, sizeof...(Parameters)));
  return kernel(context, Argument<Parameters>::get(*arguments[I])...);
}

template <typename... Parameters>
Error call_kernel(Error (*kernel)(Parameters...), KernelContext&, Span<EValue* const> arguments) {
  return call_typed(kernel, arguments, std::index_sequence_for<Parameters...>());
}

template <typename... Parameters>
Error call_kernel(Error (*kernel)(KernelContext&, Parameters...), KernelContext& context,
                  Span<EValue* const> arguments) {
  return call_typed(kernel, context, arguments, std::index_sequence_for<Parameters...>());
}

}  // namespace pteron::kernels

#define PTERON_DEFINE_KERNEL(name, parameters)                        \
  static Error name##_typed parameters;                               \
  Error name(KernelContext& context, Span<EValue* const> arguments) { \
    return call_kernel(name##_typed, context, arguments);             \
  }                                                                   \
  static Error name##_typed parameters
