// Parameters of operators: what the table says, what the C ABI passes, what C++ gets.
//
//   in the table         C ABI                                  C++
//   Tensor(x)            AtenTensorHandle                       const SlimTensor&: defined, on the device
//   OptionalTensor(x)    AtenTensorHandle*                      const SlimTensor*: likewise, or null
//   TensorList(x)        const AtenTensorHandle*, length        Span<const SlimTensor* const>: likewise
//   OptionalTensorList   const AtenTensorHandle**, length       the same, with nulls
//   Int, Float           int64_t, double                        the same
//   String(x)            const char*                            the same, not null
//   OptionalString(x)    const char**                           const char*, or null
//   Bool(x)              int32_t                                bool
//   Dtype(x)             int32_t                                DType
//   Optional{Int,Float,Bool,Dtype}(x)   pointers to those       std::optional
//   OptionalLayout(x)    int32_t*                               const int32_t*; all are strided
//   OptionalDevice(x)    int32_t*, index                        Device: that of the call's type
//   Generator(x)         void**                                 void**, null
//   IntList(x)           const int64_t*, length                 Span<const int64_t>
//   Result(x)            AtenTensorHandle*                      TensorPtr&, given away on success
//
// Another type is a class and three macros here, a line in shim_list.py and one in
// conformance/binding.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

struct Kernels;

// Where the tensors of one call have to be: all on one device of a type.
class CallDevice final {
 public:
  explicit CallDevice(DeviceType type) : type_(type) {}
  DeviceType type() const { return type_; }
  // InvalidArgument: null, undefined, or elsewhere than those before.
  Error check(AtenTensorHandle tensor, const char* name);

 private:
  DeviceType type_;
  AtenTensorHandle first_ = nullptr;
  const char* first_name_ = nullptr;
};

namespace parameter {

// Each has check(), then get() for the operator, and give() once that has succeeded.
template <typename T>
class Plain {
 public:
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
  using Plain<const Stored*>::Plain;
  std::optional<T> get() {
    return this->value_ ? std::optional<T>(static_cast<T>(*this->value_)) : std::nullopt;
  }
};

class OptionalDtype : public Plain<const int32_t*> {
 public:
  using Plain::Plain;
  Error check(CallDevice&);
  std::optional<slim::DType> get() { return dtype_; }

 private:
  std::optional<slim::DType> dtype_;
};

class OptionalDevice : public Plain<const int32_t*> {
 public:
  OptionalDevice(const char* name, const int32_t* type, int32_t index)
      : Plain(name, type), index_(index) {}
  Error check(CallDevice&);
  Device get() { return device_; }

 private:
  int32_t index_;
  Device device_;
};

// Torch's random generators are not known here.
class Generator : public Plain<void**> {
 public:
  using Plain::Plain;
  Error check(CallDevice&);
};

template <typename T>
class List : public Plain<const T*> {
 public:
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

class TensorList : public List<AtenTensorHandle> {
 public:
  using List::List;
  Error check(CallDevice& device);
  Span<const slim::SlimTensor* const> get() { return {value_, static_cast<size_t>(length_)}; }
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

}  // namespace parameter

// The body of a shim: `function(kernels, arguments...)` if the arguments are right. Results are
// written on success only.
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

// In C.
#define PTERON_C_Tensor(x) ::pteron::aoti::AtenTensorHandle x
#define PTERON_C_OptionalTensor(x) ::pteron::aoti::AtenTensorHandle* x
#define PTERON_C_TensorList(x) const ::pteron::aoti::AtenTensorHandle *x, int64_t x##_len_
#define PTERON_C_OptionalTensorList(x) const ::pteron::aoti::AtenTensorHandle **x, int64_t x##_len_
#define PTERON_C_Int(x) int64_t x
#define PTERON_C_Float(x) double x
#define PTERON_C_String(x) const char* x
#define PTERON_C_Bool(x) int32_t x
#define PTERON_C_Dtype(x) int32_t x
#define PTERON_C_OptionalInt(x) int64_t* x
#define PTERON_C_OptionalFloat(x) double* x
#define PTERON_C_OptionalBool(x) int32_t* x
#define PTERON_C_OptionalString(x) const char** x
#define PTERON_C_OptionalDtype(x) int32_t* x
#define PTERON_C_OptionalLayout(x) int32_t* x
#define PTERON_C_OptionalDevice(x) int32_t *x, int32_t x##_index_
#define PTERON_C_Generator(x) void** x
#define PTERON_C_IntList(x) const int64_t *x, int64_t x##_len_
#define PTERON_C_Result(x) ::pteron::aoti::AtenTensorHandle* x

// In C++.
#define PTERON_CXX_Tensor(x) const ::pteron::slim::SlimTensor& x
#define PTERON_CXX_OptionalTensor(x) const ::pteron::slim::SlimTensor* x
#define PTERON_CXX_TensorList(x) ::pteron::Span<const ::pteron::slim::SlimTensor* const> x
#define PTERON_CXX_OptionalTensorList(x) ::pteron::Span<const ::pteron::slim::SlimTensor* const> x
#define PTERON_CXX_Int(x) int64_t x
#define PTERON_CXX_Float(x) double x
#define PTERON_CXX_String(x) const char* x
#define PTERON_CXX_Bool(x) bool x
#define PTERON_CXX_Dtype(x) ::pteron::slim::DType x
#define PTERON_CXX_OptionalInt(x) ::std::optional<int64_t> x
#define PTERON_CXX_OptionalFloat(x) ::std::optional<double> x
#define PTERON_CXX_OptionalBool(x) ::std::optional<bool> x
#define PTERON_CXX_OptionalString(x) const char* x
#define PTERON_CXX_OptionalDtype(x) ::std::optional<::pteron::slim::DType> x
#define PTERON_CXX_OptionalLayout(x) const int32_t* x
#define PTERON_CXX_OptionalDevice(x) ::pteron::Device x
#define PTERON_CXX_Generator(x) void** x
#define PTERON_CXX_IntList(x) ::pteron::Span<const int64_t> x
#define PTERON_CXX_Result(x) ::pteron::slim::TensorPtr& x

// As call_operator takes it.
#define PTERON_P_Tensor(x) ::pteron::aoti::parameter::Tensor(#x, x)
#define PTERON_P_OptionalTensor(x) ::pteron::aoti::parameter::OptionalTensor(#x, x)
#define PTERON_P_TensorList(x) ::pteron::aoti::parameter::TensorList(#x, x, x##_len_)
#define PTERON_P_OptionalTensorList(x) \
  ::pteron::aoti::parameter::OptionalTensorList(#x, x, x##_len_)
#define PTERON_P_Int(x) ::pteron::aoti::parameter::Plain<int64_t>(#x, x)
#define PTERON_P_Float(x) ::pteron::aoti::parameter::Plain<double>(#x, x)
#define PTERON_P_String(x) ::pteron::aoti::parameter::String(#x, x)
#define PTERON_P_Bool(x) ::pteron::aoti::parameter::Bool(#x, x)
#define PTERON_P_Dtype(x) ::pteron::aoti::parameter::Dtype(#x, x)
#define PTERON_P_OptionalInt(x) ::pteron::aoti::parameter::Optional<int64_t>(#x, x)
#define PTERON_P_OptionalFloat(x) ::pteron::aoti::parameter::Optional<double>(#x, x)
#define PTERON_P_OptionalBool(x) ::pteron::aoti::parameter::Optional<int32_t, bool>(#x, x)
#define PTERON_P_OptionalString(x) ::pteron::aoti::parameter::OptionalString(#x, x)
#define PTERON_P_OptionalDtype(x) ::pteron::aoti::parameter::OptionalDtype(#x, x)
#define PTERON_P_OptionalLayout(x) ::pteron::aoti::parameter::Plain<const int32_t*>(#x, x)
#define PTERON_P_OptionalDevice(x) ::pteron::aoti::parameter::OptionalDevice(#x, x, x##_index_)
#define PTERON_P_Generator(x) ::pteron::aoti::parameter::Generator(#x, x)
#define PTERON_P_IntList(x) ::pteron::aoti::parameter::List<int64_t>(#x, x, x##_len_)
#define PTERON_P_Result(x) ::pteron::aoti::parameter::Result(#x, x)
