// AMX: registers of 16 rows of 64 bytes, and sums of products of two of them.
#pragma once

#include <cstdint>

namespace pteron::cpu {

// Whether processor, system and process let AMX be used, for bfloat16 and int8; the first call asks
// the system. Thread-safe.
bool amx_is_usable();

// Rows of a tile, and bytes of each.
inline constexpr int64_t kAmxRows = 16, kAmxRowBytes = 64;

// A product of bfloat16, accumulated in float32.
struct PairProduct {
  int64_t rows, columns, terms;  // columns a multiple of 16, terms even
  const uint16_t* left;          // [rows, terms]
  int64_t left_stride;
  const uint16_t* right;  // [terms / 2, columns, 2]
  int64_t right_stride;   // half of what is between pairs of terms
  float* out;             // [rows, columns]
  int64_t out_stride;
  bool accumulates;  // adds to `out`
};

// amx_is_usable() must be true. Subnormals are read and written as 0, as AVX512-BF16 does.
void multiply_pairs_on_amx(const PairProduct& product);

// While in scope, the calling thread's registers are as multiply_int8_on_amx() needs them.
class AmxRegisters final {
 public:
  AmxRegisters();
  ~AmxRegisters();
  AmxRegisters(const AmxRegisters&) = delete;
  AmxRegisters& operator=(const AmxRegisters&) = delete;
};

// int8: sums[r * 32 + c] = sum over groups and terms of a group of
//
//   left[r * left_stride + group * 4 + term] * right[group * 128 + c * 4 + term]
//
// for 32 rows and columns. `groups` is a multiple of 16; the left operand is int8, or uint8.
void multiply_int8_on_amx(const void* left, int64_t left_stride, bool left_is_signed,
                          const int8_t* right, int64_t groups, int32_t* sums);

}  // namespace pteron::cpu
