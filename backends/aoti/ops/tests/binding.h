// The shims of a device by name, to be called with the arguments of a case.
//
//   const std::map<std::string, Shim> kShims = {
//   #define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cpu, name, __VA_ARGS__)
//   #include "pteron/backends/cpu/runtime/shims/shims.inc"
//   };
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/ops/tests/call.h"

namespace pteron::aoti::conformance {

using Shim = int32_t (*)(Call&);

// How the next argument of a case is passed, for each type of parameter (ops/parameters.h).
namespace bind {

inline auto argument(Call& call, parameter::Tensor*) {
  return std::tuple(call.tensor(call.next()));
}

inline auto argument(Call& call, parameter::OptionalTensor*) {
  AtenTensorHandle handle = call.tensor(call.next());
  return std::tuple(handle ? call.keep(handle) : nullptr);
}

inline auto argument(Call& call, parameter::OptionalTensorList*) {
  std::vector<const AtenTensorHandle*> handles;
  for (const Json& item : call.next()) {
    handles.push_back(item.is_null() ? nullptr : call.keep(call.tensor(item)));
  }
  const auto length = static_cast<int64_t>(handles.size());
  return std::tuple<const AtenTensorHandle**, int64_t>(call.keep(std::move(handles))->data(),
                                                       length);
}

template <typename T>
auto argument(Call& call, parameter::Plain<T>*) {
  return std::tuple(number<T>(call.next()));
}

// Null for null.
template <typename T>
auto argument(Call& call, parameter::Plain<const T*>*) {
  const Json& value = call.next();
  return std::tuple<T*>(value.is_null() ? nullptr : call.keep(number<T>(value)));
}

inline auto argument(Call& call, parameter::String*) {
  const Json& value = call.next();
  return std::tuple<const char*>(value.is_null() ? nullptr
                                                 : call.keep(value.get<std::string>())->c_str());
}

inline auto argument(Call& call, parameter::OptionalString*) {
  const char* text = std::get<0>(argument(call, static_cast<parameter::String*>(nullptr)));
  return std::tuple<const char**>(text ? call.keep(text) : nullptr);
}

// The device of the test, whatever the case says.
inline auto argument(Call& call, parameter::OptionalDevice*) {
  call.next();
  return std::tuple<int32_t*, int32_t>(
      call.keep(static_cast<int32_t>(call.device().type)),
      call.device().type == DeviceType::CPU ? -1 : call.device().index);
}

inline auto argument(Call& call, parameter::Generator*) {
  call.next();
  return std::tuple<void**>(nullptr);
}

inline auto argument(Call& call, parameter::IntList*) {
  auto* numbers = call.keep(call.next().get<std::vector<int64_t>>());
  return std::tuple<const int64_t*, int64_t>(numbers->data(),
                                             static_cast<int64_t>(numbers->size()));
}

inline auto argument(Call& call, parameter::Result*) { return std::tuple(call.add_result()); }

// Braces keep the order of the arguments.
template <typename Function, typename... Parts>
int32_t invoke(Function function, std::tuple<Parts...> parts) {
  return std::apply([&](auto&&... part) { return std::apply(function, std::tuple_cat(part...)); },
                    parts);
}

}  // namespace bind
}  // namespace pteron::aoti::conformance

#define PTERON_B_One(type, x) bind::argument(call, static_cast<type*>(nullptr))
#define PTERON_B_Two PTERON_B_One

#define PTERON_BIND_SHIM(device, name, ...)                                \
  {#name, [](::pteron::aoti::conformance::Call& call) {                    \
     namespace bind = ::pteron::aoti::conformance::bind;                   \
     return bind::invoke(&ptrn_torch_##device##_##name,                    \
                         std::tuple{PTERON_EACH(PTERON_B_, __VA_ARGS__)}); \
   }},
