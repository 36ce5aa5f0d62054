#include <gtest/gtest.h>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/cpu/runtime/cpu_device.h"
#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/platform/cpu_features.h"

namespace pteron::cpu {
namespace {

TEST(CpuDevice, RefusesCodeForAMachineThatNobodyNames) {
  aoti::Metadata metadata;
  const Error error = CpuDevice().check_machine(metadata);
  EXPECT_EQ(error, Error::InvalidProgram);
  EXPECT_NE(error.message().find("lower the model again"), std::string::npos) << error.message();
  metadata.isa = "x86-64";
  EXPECT_TRUE(CpuDevice().check_machine(metadata).ok());
}

TEST(CpuDevice, UsesAsManyThreadsAsAreAskedFor) {
  aoti::Metadata metadata;
  metadata.isa = "x86-64";
  CpuDevice device;
  ASSERT_TRUE(device.set_option({"num_threads", int64_t{64}}).ok());
  EXPECT_TRUE(device.check_machine(metadata).ok());
  metadata.num_threads = 8;
  const Error error = device.check_machine(metadata);
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_NE(error.message().find("at most 8"), std::string::npos) << error.message();
}

std::vector<aoti::Metadata> variants(std::initializer_list<std::string_view> levels) {
  std::vector<aoti::Metadata> result;
  for (const std::string_view level : levels) result.emplace_back().isa = level;
  return result;
}

Result<size_t> choose(const std::vector<aoti::Metadata>& of, const std::string& isa = "") {
  CpuDevice device;
  if (!isa.empty()) {
    EXPECT_TRUE(device.set_option({"isa", isa}).ok());
  }
  return device.choose_variant(of);
}

TEST(CpuDevice, TakesTheBestVariantThatTheMachineHas) {
  const auto chosen = value_of(choose(variants({"x86-64", cpu_isa_level(), "x86-64-v9"})));
  EXPECT_EQ(chosen, 1u);
}

TEST(CpuDevice, TakesTheVariantThatIsAskedFor) {
  const auto chosen = value_of(choose(variants({"x86-64", cpu_isa_level()}), "x86-64"));
  EXPECT_EQ(chosen, 0u);
}

TEST(CpuDevice, NamesTheVariantsThatItCanRun) {
  for (const char* wanted : {"x86-64-v9", "x86-64-v1"}) {
    const Result<size_t> chosen = choose(variants({"x86-64", "x86-64-v9"}), wanted);
    ASSERT_FALSE(chosen.ok());
    EXPECT_EQ(chosen.error(), Error::InvalidArgument);
    const std::string& text = chosen.error().message();
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    EXPECT_NE(text.find("compiled for x86-64, x86-64-v9"), std::string::npos) << text;
    EXPECT_NE(text.find("runs x86-64"), std::string::npos) << text;
  }
  const Result<size_t> none = choose(variants({"x86-64-v8", "x86-64-v9"}));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error(), Error::DelegateInvalidCompatibility);
  EXPECT_NE(none.error().message().find("runs none of them"), std::string::npos);
}

const void* where_storage_lies(size_t nbytes) {
  const Result<slim::StorageRef> storage = slim::allocate_storage(nbytes, Device{});
  EXPECT_TRUE(storage.ok());
  return (*storage)->data;
}

TEST(CpuDevice, LetsCodeComputeInTheMemoryOfLargeOutputs) {
  CpuDevice device;
  alignas(64) static char large[64 << 10], small[1 << 10];
  const aoti::OutputBuffer both[] = {{large, sizeof large, 0}, {small, sizeof small, 1}};
  device.offer_output_buffers(both);
  EXPECT_EQ(where_storage_lies(sizeof large), large);
  EXPECT_EQ(where_storage_lies(sizeof small), small);
  device.withdraw_output_buffers({});
  EXPECT_NE(where_storage_lies(sizeof large), large);
  device.offer_output_buffers({&both[1], 1});
  EXPECT_NE(where_storage_lies(sizeof small), small);
  device.withdraw_output_buffers({});
}

}  // namespace
}  // namespace pteron::cpu
