#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"
#include "pteron/backends/aoti/shims/private_names.h"

namespace pteron::aoti {
namespace {

TEST(PrivateNames, KeepTheirLength) {
  for (const char* name : {"aoti_torch_cpu_mm_out", "Sleef_expf8_u10", "GOMP_parallel",
                           "omp_get_thread_num", "cudaMalloc", "cuLaunchKernel"}) {
    EXPECT_EQ(private_name(name).size(), std::string(name).size());
    EXPECT_NE(private_name(name), name);
  }
  EXPECT_EQ(private_name("aoti_torch_cpu_mm_out"), "ptrn_torch_cpu_mm_out");
  EXPECT_EQ(private_name("Sleef_expf8_u10"), "ptrn_vexpf8_u10");
  EXPECT_EQ(private_name("GOMP_parallel"), "ptrn_parallel");
  EXPECT_EQ(private_name("omp_get_thread_num"), "ptrnget_thread_num");
  for (const char* name : {"memcpy", "cudart", "cupti", "cublasCreate", "aoti_torch_", "Sleef"}) {
    EXPECT_EQ(private_name(name), name);
  }
}

TEST(RenameImports, RenamesAllOfThemAndNothingElse) {
  std::vector<uint8_t> object = read_toy("toy_model");
  ASSERT_FALSE(object.empty());
  const std::vector<uint8_t> before = object;
  Result<std::vector<std::string>> imported = rename_imports(object);
  ASSERT_TRUE(imported.ok()) << imported.error().message();
  const std::vector<std::string> expected = {
      "aoti_torch_delete_tensor_object", "aoti_torch_device_type_cpu", "aoti_torch_dtype_float32",
      "aoti_torch_empty_strided",        "aoti_torch_get_data_ptr",    "aoti_torch_get_numel",
      "aoti_torch_new_tensor_handle"};
  EXPECT_EQ(*imported, expected);
  size_t changed = 0;
  for (size_t i = 0; i < object.size(); ++i) changed += object[i] != before[i];
  EXPECT_EQ(changed, expected.size() * 4);  // "aoti" and "ptrn" share no letter in place
  Result<std::vector<std::string>> again = rename_imports(object);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->empty());
}

TEST(RenameImports, RefusesWhatIsNoSharedObject) {
  std::vector<uint8_t> empty, text(4096, 'x');
  EXPECT_EQ(rename_imports(empty).error(), Error::InvalidProgram);
  EXPECT_EQ(rename_imports(text).error(), Error::InvalidProgram);
  std::vector<uint8_t> other = read_toy("toy_model");
  other[18] ^= 0xff;  // e_machine
  Result<std::vector<std::string>> result = rename_imports(other);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("another processor"), std::string::npos);
}

TEST(RenameImports, RefusesEveryTruncation) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  for (size_t size = 0; size < whole.size(); size += 61) {
    std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<std::vector<std::string>> result = rename_imports(part);
    if (result.ok()) continue;  // only sections behind the segments are missing
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << "changed at " << size;
  }
}

// Damage of the parts that are parsed: an error or a result, never a crash, and no half-done work.
TEST(RenameImports, SurvivesDamage) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const size_t header = std::min<size_t>(whole.size(), 8192);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> object = whole;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % (round % 2 ? header : whole.size());
      object[at] = random() % 3 ? static_cast<uint8_t>(random()) : 0xff;
    }
    const std::vector<uint8_t> before = object;
    if (rename_imports(object).ok()) continue;
    ASSERT_EQ(object, before);
  }
}

}  // namespace
}  // namespace pteron::aoti
