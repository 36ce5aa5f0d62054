// Elements of any dtype as byte blocks, for kernels that only move data.
#pragma once

#include <cstdint>

namespace pteron::cpu {

struct Bytes16 {
  uint64_t low, high;
};

}  // namespace pteron::cpu

// Runs the statement with B a type of `size` bytes: 1, 2, 4, 8 or 16.
#define PTERON_DISPATCH_BYTES(size, B, ...) \
  switch (size) {                           \
    case 1: {                               \
      using B = uint8_t;                    \
      __VA_ARGS__;                          \
      break;                                \
    }                                       \
    case 2: {                               \
      using B = uint16_t;                   \
      __VA_ARGS__;                          \
      break;                                \
    }                                       \
    case 4: {                               \
      using B = uint32_t;                   \
      __VA_ARGS__;                          \
      break;                                \
    }                                       \
    case 8: {                               \
      using B = uint64_t;                   \
      __VA_ARGS__;                          \
      break;                                \
    }                                       \
    default: {                              \
      using B = ::pteron::cpu::Bytes16;     \
      __VA_ARGS__;                          \
      break;                                \
    }                                       \
  }
