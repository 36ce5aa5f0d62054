// The program around a fuzz target: libFuzzer, with the coverage that both GCC and clang report.
//
// libFuzzer wants counters that only clang compiles into code. Of both, `-fsanitize-coverage=trace-pc`
// calls a function in each basic block, which counts here.
#include <cstddef>
#include <cstdint>

#if defined(__clang__)
#define NOT_COUNTED __attribute__((no_sanitize("coverage")))
#else
#define NOT_COUNTED __attribute__((no_sanitize_coverage))
#endif

namespace {

// Blocks share counters by chance: of 5,000 one in 50.
constexpr int kLogCounters = 18;
constexpr size_t kNumCounters = size_t{1} << kLogCounters;

struct Place {
  uintptr_t address;
  uintptr_t flags;
};

uint8_t counters[kNumCounters];
Place places[kNumCounters];

}  // namespace

extern "C" {

void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);
void __sanitizer_cov_pcs_init(const uintptr_t* begin, const uintptr_t* end);
int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*run)(const uint8_t*, size_t));
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// In place of libFuzzer's, which is an error; the linker's --wrap exchanges the names.
NOT_COUNTED void __wrap___sanitizer_cov_trace_pc() {
  const auto address = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  ++counters[address * 0x9e3779b97f4a7c15u >> (64 - kLogCounters)];
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
