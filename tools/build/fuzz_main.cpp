// The program around a fuzz target: libFuzzer, with the coverage that both GCC and clang report.
//
// libFuzzer wants counters that only clang compiles into code. Of both, `-fsanitize-coverage=trace-pc`
// calls a function in each basic block, which counts here.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__clang__)
#define NOT_COUNTED __attribute__((no_sanitize("coverage")))
#else
#define NOT_COUNTED __attribute__((no_sanitize_coverage))
#endif

namespace {

// Of each 8 bytes of code, of 2 MB; then blocks share counters. Those that run together are together.
constexpr size_t kNumCounters = size_t{1} << 18;

struct Place {
  uintptr_t address;
  uintptr_t flags;
};

uint8_t counters[kNumCounters];
Place places[kNumCounters];

}  // namespace

// AddressSanitizer's `new` ends the process if there is no memory, which is no finding: as elsewhere, it
// throws. Blocks are malloc's, which guards them.
NOT_COUNTED void* operator new(size_t nbytes) {
  if (void* const data = std::malloc(nbytes)) return data;
  throw std::bad_alloc();
}
NOT_COUNTED void* operator new(size_t nbytes, std::align_val_t alignment) {
  const size_t step = static_cast<size_t>(alignment);
  void* data = nullptr;
  if (posix_memalign(&data, step < sizeof(data) ? sizeof(data) : step, nbytes) == 0) return data;
  throw std::bad_alloc();
}
NOT_COUNTED void* operator new(size_t nbytes, const std::nothrow_t&) noexcept {
  return std::malloc(nbytes);
}
NOT_COUNTED void operator delete(void* data) noexcept { std::free(data); }
NOT_COUNTED void operator delete(void* data, size_t) noexcept { std::free(data); }
NOT_COUNTED void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
NOT_COUNTED void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }

extern "C" {

void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);
void __sanitizer_cov_pcs_init(const uintptr_t* begin, const uintptr_t* end);
int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*run)(const uint8_t*, size_t));
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// In place of libFuzzer's, which is an error; the linker's --wrap exchanges the names.
NOT_COUNTED void __wrap___sanitizer_cov_trace_pc() {
  const auto address = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  ++counters[(address >> 3 ^ address >> 21) % kNumCounters];
}

// GCC's, which libFuzzer does not have: comparisons of floating point.
NOT_COUNTED void __sanitizer_cov_trace_cmpf(float, float) {}
NOT_COUNTED void __sanitizer_cov_trace_cmpd(double, double) {}

}  // extern "C"

NOT_COUNTED int main(int argc, char** argv) {
  for (size_t i = 0; i < kNumCounters; ++i) places[i].address = i + 1;
  __sanitizer_cov_8bit_counters_init(counters, counters + kNumCounters);
  const auto* const addresses = reinterpret_cast<const uintptr_t*>(places);
  __sanitizer_cov_pcs_init(addresses, addresses + 2 * kNumCounters);
  return LLVMFuzzerRunDriver(&argc, &argv, LLVMFuzzerTestOneInput);
}
