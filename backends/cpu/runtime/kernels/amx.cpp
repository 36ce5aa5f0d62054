#include "pteron/backends/cpu/runtime/kernels/amx.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pteron::cpu {

#if defined(__x86_64__)

namespace {

#define PTERON_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))

// What LDTILECFG reads. Registers 0 to 3 are sums, 4 and 5 rows of the left operand, 6 and 7 columns
// of the right one.
struct alignas(64) Configuration {
  explicit Configuration(int64_t first_rows = kAmxRows, int64_t more_rows = kAmxRows) {
    const int64_t count[8] = {first_rows, first_rows, more_rows, more_rows,
                              first_rows, more_rows,  kAmxRows,  kAmxRows};
    for (int i = 0; i < 8; ++i) {
      rows[i] = static_cast<uint8_t>(count[i]);
      row_bytes[i] = count[i] ? kAmxRowBytes : 0;
    }
  }

  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

PTERON_AMX void load(const Configuration& configuration) {
  // GCC's intrinsic says that it reads 8 bytes.
  asm volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
}
PTERON_AMX void release() { _tile_release(); }

constexpr int64_t kTerms = 32;  // of bfloat16 in a row of a tile

// Terms that fill no row, with zeros behind them.
struct Rest {
  alignas(64) uint16_t left[2 * kAmxRows][kTerms];
  alignas(64) uint16_t right[kAmxRows][2 * kTerms];  // of two tiles
};

// Up to 32 rows by one or two tiles of columns.
template <bool kTwoRows, bool kTwoColumns>
PTERON_AMX void multiply_tiles(const PairProduct& p, int64_t row, int64_t column,
                               const Rest& rest) {
  const uint16_t *left = p.left + row * p.left_stride, *right = p.right + 2 * column;
  float* const out = p.out + row * p.out_stride + column;
  const int64_t left_bytes = p.left_stride * 2, right_bytes = p.right_stride * 4;
  const int64_t out_bytes = p.out_stride * 4;
  float* const more_out = out + kAmxRows * p.out_stride;
  if (p.accumulates) {
    _tile_loadd(0, out, out_bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, out + kAmxRows, out_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, more_out, out_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, more_out + kAmxRows, out_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
#define PTERON_MULTIPLY(left, left_bytes, right, right_bytes)                                 \
  _tile_loadd(4, left, left_bytes);                                                           \
  _tile_loadd(6, right, right_bytes);                                                         \
  _tile_dpbf16ps(0, 4, 6);                                                                    \
  if constexpr (kTwoColumns) _tile_loadd(7, (right) + 2 * kAmxRows, right_bytes);             \
  if constexpr (kTwoColumns) _tile_dpbf16ps(1, 4, 7);                                         \
  if constexpr (kTwoRows) _tile_loadd(5, (left) + kAmxRows * ((left_bytes) / 2), left_bytes); \
  if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);                                            \
  if constexpr (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);
  for (int64_t k = 0; k + kTerms <= p.terms; k += kTerms) {
    PTERON_MULTIPLY(left, left_bytes, right, right_bytes)
    left += kTerms;
    right += kTerms * p.right_stride;
  }
  if (p.terms % kTerms != 0) {
    const uint16_t *left_rest = rest.left[0], *right_rest = rest.right[0];
    PTERON_MULTIPLY(left_rest, kAmxRowBytes, right_rest, 2 * kAmxRowBytes)
  }
#undef PTERON_MULTIPLY
  _tile_stored(0, out, out_bytes);
  if constexpr (kTwoColumns) _tile_stored(1, out + kAmxRows, out_bytes);
  if constexpr (kTwoRows) _tile_stored(2, more_out, out_bytes);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, more_out + kAmxRows, out_bytes);
}

// All columns of rows [row, row + rows).
void multiply_rows(const PairProduct& p, int64_t row, int64_t rows) {
  Rest rest;
  const int64_t terms = p.terms % kTerms, done = p.terms - terms;
  if (terms != 0) {
    std::memset(&rest, 0, sizeof rest);
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(rest.left[r], p.left + (row + r) * p.left_stride + done, terms * 2);
    }
  }
  for (int64_t column = 0; column < p.columns; column += 2 * kAmxRows) {
    const bool two = column + kAmxRows < p.columns;
    for (int64_t k = 0; k < terms; k += 2) {
      std::memcpy(rest.right[k / 2], p.right + (done + k) * p.right_stride + 2 * column,
                  (two ? 2 : 1) * kAmxRowBytes);
    }
    if (rows > kAmxRows) {
      two ? multiply_tiles<true, true>(p, row, column, rest)
          : multiply_tiles<true, false>(p, row, column, rest);
    } else {
      two ? multiply_tiles<false, true>(p, row, column, rest)
          : multiply_tiles<false, false>(p, row, column, rest);
    }
  }
}

// CPUID 7: AMX-BF16, AMX-TILE, AMX-INT8.
constexpr unsigned kAmx = 1u << 22 | 1u << 24 | 1u << 25;
// See arch_prctl and Documentation/arch/x86/xstate.rst of Linux: a process asks for the memory in
// which the system saves the registers.
constexpr long kRequestPermission = 0x1023, kTileData = 18;

}  // namespace

bool amx_is_usable() {
  static const bool usable = [] {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmx) == kAmx &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return usable;
}

AmxRegisters::AmxRegisters() { load(Configuration()); }

// So that nothing saves the registers when threads are switched.
AmxRegisters::~AmxRegisters() { release(); }

void multiply_pairs_on_amx(const PairProduct& p) {
  const AmxRegisters registers;
  const int64_t whole = p.rows / (2 * kAmxRows) * (2 * kAmxRows), left = p.rows - whole;
  for (int64_t row = 0; row < whole; row += 2 * kAmxRows) multiply_rows(p, row, 2 * kAmxRows);
  if (left > 0) {
    load(Configuration(std::min(left, kAmxRows), std::max<int64_t>(left - kAmxRows, 0)));
    multiply_rows(p, whole, left);
  }
}

PTERON_AMX void multiply_int8_on_amx(const void* left, int64_t left_stride, bool left_is_signed,
                                     const int8_t* right, int64_t groups, int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  constexpr int64_t kRightBytes = 2 * kAmxRowBytes;
  const auto* rows = static_cast<const uint8_t*>(left);
  const uint8_t* const end = rows + groups * 4;
  for (; rows < end; rows += kAmxRowBytes, right += kAmxRows * kRightBytes) {
    _tile_loadd(4, rows, left_stride);
    _tile_loadd(5, rows + kAmxRows * left_stride, left_stride);
    _tile_loadd(6, right, kRightBytes);
    _tile_loadd(7, right + kAmxRowBytes, kRightBytes);
    if (left_is_signed) {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    }
  }
  constexpr int64_t kSumBytes = 2 * kAmxRowBytes;
  _tile_stored(0, sums, kSumBytes);
  _tile_stored(1, sums + kAmxRows, kSumBytes);
  _tile_stored(2, sums + 2 * kAmxRows * kAmxRows, kSumBytes);
  _tile_stored(3, sums + 2 * kAmxRows * kAmxRows + kAmxRows, kSumBytes);
}

#else

bool amx_is_usable() { return false; }
AmxRegisters::AmxRegisters() = default;
AmxRegisters::~AmxRegisters() = default;
void multiply_pairs_on_amx(const PairProduct&) {}
void multiply_int8_on_amx(const void*, int64_t, bool, const int8_t*, int64_t, int32_t*) {}

#endif

}  // namespace pteron::cpu
