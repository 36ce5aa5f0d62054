// The shims of a device by name, to be called with the arguments of a case.
//
//   const std::map<std::string, Shim> kShims = {
//   #define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cpu, name, __VA_ARGS__)
//   #include "pteron/backends/cpu/runtime/shims/shims.inc"
//   #undef AOTI_SHIM
//   };
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

#include "pteron/backends/aoti/ops/conformance/call.h"
#include "pteron/backends/aoti/ops/shim_macros.h"

namespace pteron::aoti::conformance {

using Shim = int32_t (*)(Call&);

// How the next argument of a case is passed, for each type of parameter (ops/parameters.h).
namespace bind {

inline auto tensor(Call& call) { return std::tuple(call.tensor(call.next())); }

inline auto optional_tensor(Call& call) {
  AtenTensorHandle handle = call.tensor(call.next());
  return std::tuple(handle ? call.keep(handle) : nullptr);
}

inline auto tensor_list(Call& call) {
  std::vector<AtenTensorHandle> handles;
  for (const Json& item : call.next()) handles.push_back(call.tensor(item));
  const auto length = static_cast<int64_t>(handles.size());
  return std::tuple<const AtenTensorHandle*, int64_t>(call.keep(std::move(handles))->data(),
                                                      length);
}

inline auto optional_tensor_list(Call& call) {
  std::vector<const AtenTensorHandle*> handles;
  for (const Json& item : call.next()) {
    handles.push_back(item.is_null() ? nullptr : call.keep(call.tensor(item)));
  }
  const auto length = static_cast<int64_t>(handles.size());
  return std::tuple<const AtenTensorHandle**, int64_t>(call.keep(std::move(handles))->data(),
                                                       length);
}

template <typename T>
auto number(Call& call) {
  const Json& value = call.next();
  if (value.is_string()) {  // "inf", "nan"
    return std::tuple(static_cast<T>(std::strtod(value.get<std::string>().c_str(), nullptr)));
  }
  return std::tuple(value.is_boolean() ? static_cast<T>(value.get<bool>()) : value.get<T>());
}

template <typename T>
auto optional_number(Call& call) {
  const Json& value = call.next();
  if (value.is_null()) return std::tuple<T*>(nullptr);
  return std::tuple(
      call.keep(value.is_boolean() ? static_cast<T>(value.get<bool>()) : value.get<T>()));
}

inline auto string(Call& call) {
  const Json& value = call.next();
  return std::tuple<const char*>(value.is_null() ? nullptr
                                                 : call.keep(value.get<std::string>())->c_str());
}

inline auto optional_string(Call& call) {
  const char* text = std::get<0>(string(call));
  return std::tuple<const char**>(text ? call.keep(text) : nullptr);
}

inline int32_t dtype_number(const Json& name) {
  return name.is_number() ? name.get<int32_t>()
                          : static_cast<int32_t>(dtype_of(Json{{"dtype", name}}));
}

inline auto dtype(Call& call) { return std::tuple(dtype_number(call.next())); }

inline auto optional_dtype(Call& call) {
  const Json& name = call.next();
  return std::tuple<int32_t*>(name.is_null() ? nullptr : call.keep(dtype_number(name)));
}

// The device of the test, whatever the case says.
inline auto optional_device(Call& call) {
  call.next();
  return std::tuple<int32_t*, int32_t>(
      call.keep(static_cast<int32_t>(call.device().type)),
      call.device().type == DeviceType::CPU ? -1 : call.device().index);
}

inline auto generator(Call& call) {
  call.next();
  return std::tuple<void**>(nullptr);
}

inline auto int_list(Call& call) {
  auto* numbers = call.keep(call.next().get<std::vector<int64_t>>());
  return std::tuple<const int64_t*, int64_t>(numbers->data(),
                                             static_cast<int64_t>(numbers->size()));
}

inline auto result(Call& call) { return std::tuple(call.add_result()); }

// Braces keep the order of the arguments.
template <typename Function, typename... Parts>
int32_t invoke(Function function, std::tuple<Parts...> parts) {
  return std::apply([&](auto&&... part) { return std::apply(function, std::tuple_cat(part...)); },
                    parts);
}

}  // namespace bind
}  // namespace pteron::aoti::conformance

#define PTERON_B_Tensor(x) bind::tensor(call)
#define PTERON_B_OptionalTensor(x) bind::optional_tensor(call)
#define PTERON_B_TensorList(x) bind::tensor_list(call)
#define PTERON_B_OptionalTensorList(x) bind::optional_tensor_list(call)
#define PTERON_B_Int(x) bind::number<int64_t>(call)
#define PTERON_B_Float(x) bind::number<double>(call)
#define PTERON_B_String(x) bind::string(call)
#define PTERON_B_Bool(x) bind::number<int32_t>(call)
#define PTERON_B_Dtype(x) bind::dtype(call)
#define PTERON_B_OptionalInt(x) bind::optional_number<int64_t>(call)
#define PTERON_B_OptionalFloat(x) bind::optional_number<double>(call)
#define PTERON_B_OptionalBool(x) bind::optional_number<int32_t>(call)
#define PTERON_B_OptionalString(x) bind::optional_string(call)
#define PTERON_B_OptionalDtype(x) bind::optional_dtype(call)
#define PTERON_B_OptionalLayout(x) bind::optional_number<int32_t>(call)
#define PTERON_B_OptionalDevice(x) bind::optional_device(call)
#define PTERON_B_Generator(x) bind::generator(call)
#define PTERON_B_IntList(x) bind::int_list(call)
#define PTERON_B_Result(x) bind::result(call)

#define PTERON_BIND_SHIM(device, name, ...)                                \
  {#name, [](::pteron::aoti::conformance::Call& call) {                    \
     namespace bind = ::pteron::aoti::conformance::bind;                   \
     return bind::invoke(&ptrn_torch_##device##_##name,                    \
                         std::tuple{PTERON_EACH(PTERON_B_, __VA_ARGS__)}); \
   }},
