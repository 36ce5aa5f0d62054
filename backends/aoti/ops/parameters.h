// Parameters of operators: in the table, in the C ABI, in C++.
//
//   in the table         C ABI                                  C++
//   Tensor(x)            AtenTensorHandle                       const SlimTensor&: defined, on the device
//   OptionalTensor(x)    AtenTensorHandle*                      const SlimTensor*: likewise, or null
//   OptionalTensorList   const AtenTensorHandle**, length       Span<const SlimTensor* const>: likewise
//   Int, Float           int64_t, double                        the same
//   String(x)            const char*                            the same, not null
//   OptionalString(x)    const char**                           const char*, or null
//   Bool(x)              int32_t                                bool
//   Dtype(x)             int32_t                                DType
//   Optional{Int,Float,Bool,Dtype}(x)   pointers to those       std::optional
//   OptionalLayout(x)    int32_t*                               std::optional; all are strided
//   OptionalDevice(x)    int32_t*, index                        Device: that of the call's type
//   Generator(x)         void**                                 void**, null
//   IntList(x)           const int64_t*, length                 Span<const int64_t>
//   Result(x)            AtenTensorHandle*                      TensorPtr&, given away on success
//
// To add a type: a class and a macro here, a line in shim_list.py and a function in
// conformance/binding.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

struct Kernels;

// The device of a call: all its tensors are on one device of a type.
class CallDevice final {
 public:
  explicit CallDevice(DeviceType type) : type_(type) {}
  DeviceType type() const { return type_; }
  // InvalidArgument: null, undefined, or on another device than the tensors before.
  Error check(AtenTensorHandle tensor, const char* name);

 private:
  DeviceType type_;
  AtenTensorHandle first_ = nullptr;
  const char* first_name_ = nullptr;
};

namespace parameter {

// Each has check(), then get() for the operator, and give() after it succeeded. C is the C ABI
// type; if there are two C arguments, More is the second.
template <typename T>
class Plain {
 public:
  using C = T;
  Plain(const char* name, T value) : name_(name), value_(value) {}
  Error check(CallDevice&) { return Error::Ok; }
  T get() { return value_; }
  void give() {}

 protected:
  const char* name_;
  T value_;
};

class Tensor : public Plain<AtenTensorHandle> {
 public:
  using Plain::Plain;
  Error check(CallDevice& device) { return device.check(value_, name_); }
  const slim::SlimTensor& get() { return *value_; }
};

class OptionalTensor : public Plain<AtenTensorHandle*> {
 public:
  using Plain::Plain;
  Error check(CallDevice& device) {
    return get() ? device.check(*value_, name_) : Error(Error::Ok);
  }
  const slim::SlimTensor* get() { return value_ ? *value_ : nullptr; }
};

class Bool : public Plain<int32_t> {
 public:
  using Plain::Plain;
  bool get() { return value_ != 0; }
};

class String : public Plain<const char*> {
 public:
  using Plain::Plain;
  Error check(CallDevice&) { return check_pointer(value_, name_); }
};

class OptionalString : public Plain<const char* const*> {
 public:
  using C = const char**;
  using Plain::Plain;
  const char* get() { return value_ ? *value_ : nullptr; }
};

class Dtype : public Plain<int32_t> {
 public:
  using Plain::Plain;
  Error check(CallDevice&);
  slim::DType get() { return dtype_; }

 private:
  slim::DType dtype_ = slim::DType::Float;
};

template <typename Stored, typename T = Stored>
class Optional : public Plain<const Stored*> {
 public:
  using C = Stored*;
  using Plain<const Stored*>::Plain;
  std::optional<T> get() {
    return this->value_ ? std::optional<T>(static_cast<T>(*this->value_)) : std::nullopt;
  }
};

class OptionalDtype : public Plain<const int32_t*> {
 public:
  using C = int32_t*;
  using Plain::Plain;
  Error check(CallDevice&);
  std::optional<slim::DType> get() { return dtype_; }

 private:
  std::optional<slim::DType> dtype_;
};

class OptionalDevice : public Plain<const int32_t*> {
 public:
  using C = int32_t*;
  using More = int32_t;
  OptionalDevice(const char* name, const int32_t* type, int32_t index)
      : Plain(name, type), index_(index) {}
  Error check(CallDevice&);
  Device get() { return device_; }

 private:
  int32_t index_;
  Device device_;
};

// torch.Generator is not supported.
class Generator : public Plain<void**> {
 public:
  using Plain::Plain;
  Error check(CallDevice&);
};

template <typename T>
class List : public Plain<const T*> {
 public:
  using More = int64_t;
  List(const char* name, const T* values, int64_t length)
      : Plain<const T*>(name, values), length_(length) {}
  Error check(CallDevice&) {
    PTERON_CHECK_OR_RETURN(length_ >= 0 && (length_ == 0 || this->value_), Error::InvalidArgument,
                           "%s: found %lld elements at %p", this->name_,
                           static_cast<long long>(length_), static_cast<const void*>(this->value_));
    return Error::Ok;
  }
  Span<const T> get() { return {this->value_, static_cast<size_t>(length_)}; }

 protected:
  int64_t length_;
};

class OptionalTensorList : public List<const AtenTensorHandle*> {
 public:
  using List::List;
  Error check(CallDevice& device);
  Span<const slim::SlimTensor* const> get() { return {tensors_.data(), tensors_.size()}; }

 private:
  std::vector<const slim::SlimTensor*> tensors_;
};

class Result : public Plain<AtenTensorHandle*> {
 public:
  using Plain::Plain;
  Error check(CallDevice&) { return check_pointer(value_, name_); }
  slim::TensorPtr& get() { return tensor_; }
  void give() { *value_ = tensor_.release(); }

 private:
  slim::TensorPtr tensor_;
};

using Int = Plain<int64_t>;
using Float = Plain<double>;
using OptionalInt = Optional<int64_t>;
using OptionalFloat = Optional<double>;
using OptionalBool = Optional<int32_t, bool>;
using OptionalLayout = Optional<int32_t>;
using IntList = List<int64_t>;

template <typename Parameter>
using Argument = decltype(std::declval<Parameter>().get());

}  // namespace parameter

// The body of a shim: `function(kernels, arguments...)` if the arguments are valid. Results are
// written only on success.
template <typename Function, typename... Parameters>
AOTITorchError call_operator(const char* shim, DeviceType device, const Kernels& kernels,
                             Function function, Parameters... parameters) noexcept {
  return c_boundary(shim, [&]() -> Error {
    CallDevice call_device(device);
    Error error = Error::Ok;
    if (!(... && (error = parameters.check(call_device)).ok())) return error;
    error = function(kernels, parameters.get()...);
    if (error.ok()) (parameters.give(), ...);
    return error;
  });
}

}  // namespace pteron::aoti

// The number of C arguments of a type, its class, and the parameter name.
#define PTERON_PARAMETER_Tensor(x) One, ::pteron::aoti::parameter::Tensor, x
#define PTERON_PARAMETER_OptionalTensor(x) One, ::pteron::aoti::parameter::OptionalTensor, x
#define PTERON_PARAMETER_Int(x) One, ::pteron::aoti::parameter::Int, x
#define PTERON_PARAMETER_Float(x) One, ::pteron::aoti::parameter::Float, x
#define PTERON_PARAMETER_String(x) One, ::pteron::aoti::parameter::String, x
#define PTERON_PARAMETER_Bool(x) One, ::pteron::aoti::parameter::Bool, x
#define PTERON_PARAMETER_Dtype(x) One, ::pteron::aoti::parameter::Dtype, x
#define PTERON_PARAMETER_OptionalInt(x) One, ::pteron::aoti::parameter::OptionalInt, x
#define PTERON_PARAMETER_OptionalFloat(x) One, ::pteron::aoti::parameter::OptionalFloat, x
#define PTERON_PARAMETER_OptionalBool(x) One, ::pteron::aoti::parameter::OptionalBool, x
#define PTERON_PARAMETER_OptionalString(x) One, ::pteron::aoti::parameter::OptionalString, x
#define PTERON_PARAMETER_OptionalDtype(x) One, ::pteron::aoti::parameter::OptionalDtype, x
#define PTERON_PARAMETER_OptionalLayout(x) One, ::pteron::aoti::parameter::OptionalLayout, x
#define PTERON_PARAMETER_Generator(x) One, ::pteron::aoti::parameter::Generator, x
#define PTERON_PARAMETER_Result(x) One, ::pteron::aoti::parameter::Result, x
#define PTERON_PARAMETER_OptionalTensorList(x) Two, ::pteron::aoti::parameter::OptionalTensorList, x
#define PTERON_PARAMETER_OptionalDevice(x) Two, ::pteron::aoti::parameter::OptionalDevice, x
#define PTERON_PARAMETER_IntList(x) Two, ::pteron::aoti::parameter::IntList, x

// PTERON_WITH(PTERON_C_, Int(k)): PTERON_C_One(parameter::Int, k)
#define PTERON_WITH(p, parameter) PTERON_WITH_(p, PTERON_PARAMETER_##parameter)
#define PTERON_WITH_(...) PTERON_WITH_EXPANDED_(__VA_ARGS__)
#define PTERON_WITH_EXPANDED_(p, count, type, x) p##count(type, x)

// In C.
#define PTERON_C_One(type, x) type::C x
#define PTERON_C_Two(type, x) type::C x, type::More x##_more_
// In C++.
#define PTERON_CXX_One(type, x) ::pteron::aoti::parameter::Argument<type> x
#define PTERON_CXX_Two PTERON_CXX_One
// As call_operator takes it.
#define PTERON_P_One(type, x) type(#x, x)
#define PTERON_P_Two(type, x) type(#x, x, x##_more_)
