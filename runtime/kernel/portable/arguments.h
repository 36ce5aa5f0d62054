// Typed kernel functions with the registry's signature.
//
//   PTERON_DEFINE_KERNEL(select_copy_out,
//                        (const Tensor& self, int64_t dim, int64_t index, Tensor& out)) {
//     ...
//     return Error::Ok;
//   }
//
// defines select_copy_out(KernelContext&, Span<EValue* const>), which checks count, kinds and
// memory of all arguments before it calls the body.
//
// Parameter types and the values that a program may pass:
//   const Tensor&, Tensor&     a tensor on the CPU, with memory
//   Handle                     a tensor that gets the memory of another; may have none before
//   int64_t, bool              Int; Bool
//   Scalar                     Int, Double or Bool
//   Ints                       IntList
//   Ignored                    anything
//   EValue&                    anything, to be written
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/kernel/kernel_context.h"

namespace pteron::kernels {

// A scalar: int64, double or bool.
class Scalar final {
 public:
  Scalar(int64_t value) : dtype_(ScalarType::Long), int_(value) {}      // NOLINT
  Scalar(double value) : dtype_(ScalarType::Double), double_(value) {}  // NOLINT
  Scalar(bool value) : dtype_(ScalarType::Bool), int_(value) {}         // NOLINT

  ScalarType dtype() const { return dtype_; }
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

// Elements of a boxed list of ints.
struct Ints {
  Span<EValue* const> items;
  size_t size() const { return items.size(); }
  int64_t operator[](size_t i) const { return items[i]->to_int(); }
};

struct Ignored {};

struct Handle {
  Tensor& tensor;
};

// Allowed kinds of an argument as bits, for the check that all kernels share.
enum ArgumentKind : uint16_t {
  kTensor = 1 << 0,
  kInt = 1 << 1,
  kDouble = 1 << 2,
  kBool = 1 << 3,
  kIntList = 1 << 4,
  kAnything = 1 << 5,
  kWritten = 1 << 6,  // a tensor that must not also be another argument
  kHandle = 1 << 7,   // a tensor whose memory is not accessed
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
PTERON_ARGUMENT(Handle, kTensor | kHandle, Handle{value.tensor()});
PTERON_ARGUMENT(int64_t, kInt, value.to_int());
PTERON_ARGUMENT(bool, kBool, value.to_bool());
PTERON_ARGUMENT(Scalar, kInt | kDouble | kBool,
                value.is_int()      ? Scalar(value.to_int())
                : value.is_double() ? Scalar(value.to_double())
                                    : Scalar(value.to_bool()));
PTERON_ARGUMENT(Ints, kIntList, Ints{value.to_int_list().items});
PTERON_ARGUMENT(Ignored, kAnything, ((void)value, Ignored{}));
PTERON_ARGUMENT(EValue&, kAnything, value);
#undef PTERON_ARGUMENT

// InvalidArgument or InvalidType: wrong number of arguments (outputs follow the `count` arguments
// of the schema and may be missing), wrong kind, a tensor without memory or on a device, a tensor
// that is both read and written.
Error check_arguments(Span<EValue* const> arguments, const uint16_t* kinds, size_t count);

template <typename... Parameters, size_t... I>
Error call_typed(Error (*kernel)(Parameters...), Span<EValue* const> arguments,
                 std::index_sequence<I...>) {
  static constexpr uint16_t kKinds[] = {Argument<Parameters>::kKinds...};
  PTERON_RETURN_IF_ERROR(check_arguments(arguments, kKinds, sizeof...(Parameters)));
  return kernel(Argument<Parameters>::get(*arguments[I])...);
}

template <typename... Parameters>
Error call_kernel(Error (*kernel)(Parameters...), Span<EValue* const> arguments) {
  return call_typed(kernel, arguments, std::index_sequence_for<Parameters...>());
}

}  // namespace pteron::kernels

#define PTERON_DEFINE_KERNEL(name, parameters)                \
  static Error name##_typed parameters;                       \
  Error name(KernelContext&, Span<EValue* const> arguments) { \
    return call_kernel(name##_typed, arguments);              \
  }                                                           \
  static Error name##_typed parameters
