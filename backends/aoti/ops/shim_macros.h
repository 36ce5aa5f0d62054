// Expansion of a line of the table:
//
//   #define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cpu, name, __VA_ARGS__)
//   #include "pteron/backends/cpu/runtime/shims/shims.inc"
//
// declares ptrn_torch_cpu_NAME, which models import as aoti_torch_cpu_NAME, for every operator of
// the CPU.
#pragma once

#include "pteron/backends/aoti/ops/parameters.h"
#include "pteron/backends/aoti/shims/shim_export.h"

// PTERON_EACH(p, Tensor(self), Int(k)): p##One(parameter::Tensor, self), p##One(parameter::Int, k). Up
// to 20.
#define PTERON_EACH(p, ...)                                                             \
  PTERON_EACH_PICK_(__VA_ARGS__, PTERON_EACH_20_, PTERON_EACH_19_, PTERON_EACH_18_,     \
                    PTERON_EACH_17_, PTERON_EACH_16_, PTERON_EACH_15_, PTERON_EACH_14_, \
                    PTERON_EACH_13_, PTERON_EACH_12_, PTERON_EACH_11_, PTERON_EACH_10_, \
                    PTERON_EACH_9_, PTERON_EACH_8_, PTERON_EACH_7_, PTERON_EACH_6_,     \
                    PTERON_EACH_5_, PTERON_EACH_4_, PTERON_EACH_3_, PTERON_EACH_2_,     \
                    PTERON_EACH_1_, 0)                                                  \
  (p, __VA_ARGS__)
#define PTERON_EACH_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, name, ...) \
  name
#define PTERON_EACH_1_(p, x) PTERON_WITH(p, x)
#define PTERON_EACH_2_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_1_(p, __VA_ARGS__)
#define PTERON_EACH_3_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_2_(p, __VA_ARGS__)
#define PTERON_EACH_4_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_3_(p, __VA_ARGS__)
#define PTERON_EACH_5_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_4_(p, __VA_ARGS__)
#define PTERON_EACH_6_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_5_(p, __VA_ARGS__)
#define PTERON_EACH_7_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_6_(p, __VA_ARGS__)
#define PTERON_EACH_8_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_7_(p, __VA_ARGS__)
#define PTERON_EACH_9_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_8_(p, __VA_ARGS__)
#define PTERON_EACH_10_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_9_(p, __VA_ARGS__)
#define PTERON_EACH_11_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_10_(p, __VA_ARGS__)
#define PTERON_EACH_12_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_11_(p, __VA_ARGS__)
#define PTERON_EACH_13_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_12_(p, __VA_ARGS__)
#define PTERON_EACH_14_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_13_(p, __VA_ARGS__)
#define PTERON_EACH_15_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_14_(p, __VA_ARGS__)
#define PTERON_EACH_16_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_15_(p, __VA_ARGS__)
#define PTERON_EACH_17_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_16_(p, __VA_ARGS__)
#define PTERON_EACH_18_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_17_(p, __VA_ARGS__)
#define PTERON_EACH_19_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_18_(p, __VA_ARGS__)
#define PTERON_EACH_20_(p, x, ...) PTERON_WITH(p, x), PTERON_EACH_19_(p, __VA_ARGS__)

#define PTERON_DECLARE_OPERATOR(name, ...)                     \
  ::pteron::Error name(const ::pteron::aoti::Kernels& kernels, \
                       PTERON_EACH(PTERON_CXX_, __VA_ARGS__));

#define PTERON_DECLARE_SHIM(device, name, ...)                                    \
  PTERON_SHIM_EXPORT ::pteron::aoti::AOTITorchError ptrn_torch_##device##_##name( \
      PTERON_EACH(PTERON_C_, __VA_ARGS__));

// A shim of `device` (cpu, cuda) that calls ops::NAME with `kernels`, which is of namespace pteron.
#define PTERON_DEFINE_SHIM(device, type, kernels, name, ...) \
  PTERON_DEFINE_SHIM_(device, type, kernels, name, __VA_ARGS__)
#define PTERON_DEFINE_SHIM_(device, type, kernels, name, ...)                           \
  PTERON_SHIM_EXPORT ::pteron::aoti::AOTITorchError ptrn_torch_##device##_##name(       \
      PTERON_EACH(PTERON_C_, __VA_ARGS__)) {                                            \
    return ::pteron::aoti::call_operator(                                               \
        "aoti_torch_" #device "_" #name, ::pteron::DeviceType::type, ::pteron::kernels, \
        ::pteron::aoti::ops::name, PTERON_EACH(PTERON_P_, __VA_ARGS__));                \
  }
