// When OpenBLAS is opened. What products are right is tested through the shims (test_ops).
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/gemm.h"

namespace pteron::cpu {
namespace {

bool has_openblas() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("openblas") != std::string::npos) return true;
  }
  return false;
}

// Whether the product of two matrices [size, size] of small integers, which is exact, is right.
bool multiplies(int64_t size) {
  std::vector<float> a(size * size), b(size * size), out(size * size);
  for (int64_t i = 0; i < size * size; ++i) {
    a[i] = static_cast<float>(i % 7 - 3);
    b[i] = static_cast<float>(i % 5 - 2);
  }
  gemm<float>(1.0, {a.data(), size, size, size, 1}, {b.data(), size, size, size, 1}, 0.0,
              {out.data(), size, size, size, 1});
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < size; ++k) sum += a[i * size + k] * b[k * size + j];
      if (out[i * size + j] != sum) return false;
    }
  }
  return true;
}

TEST(Gemm, OpensOpenBlasForTheFirstProductThatNeedsIt) {
  EXPECT_FALSE(has_openblas());
  EXPECT_TRUE(multiplies(4));
  EXPECT_FALSE(has_openblas());
  EXPECT_TRUE(multiplies(64));
  EXPECT_TRUE(has_openblas());
}

TEST(GemmDeathTest, WarnsAndMultipliesWithoutOpenBlas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which nothing opened it
  const auto without_openblas = [] {
    const rlimit no_files{0, 0};
    setrlimit(RLIMIT_NOFILE, &no_files);
    std::_Exit(multiplies(64) ? 0 : 1);  // nothing at exit may want a file, as LeakSanitizer does
  };
  EXPECT_EXIT(without_openblas(), testing::ExitedWithCode(0), "without OpenBLAS.*LD_LIBRARY_PATH");
}

}  // namespace
}  // namespace pteron::cpu
