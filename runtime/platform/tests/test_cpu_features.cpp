#include <gtest/gtest.h>

#include <string>

#include "pteron/runtime/platform/cpu_features.h"

namespace pteron {
namespace {

TEST(CpuFeaturesTest, UnknownFeaturesAreMissingAndNamed) {
  EXPECT_FALSE(cpu_has_feature("no_such_feature"));
  const Error error = check_cpu("", {"no_such_feature", "nor_this"});
  EXPECT_EQ(error, Error::DelegateInvalidCompatibility);
  EXPECT_NE(error.message().find("no_such_feature, nor_this"), std::string::npos)
      << error.message();
}

TEST(CpuFeaturesTest, UnknownLevelsAreRefused) {
  const Error error = check_cpu("x86-64-v9", {});
  EXPECT_EQ(error, Error::NotSupported);
  EXPECT_NE(error.message().find("x86-64-v4"), std::string::npos) << error.message();
}

TEST(CpuFeaturesTest, NothingIsAlwaysThere) { EXPECT_TRUE(check_cpu("", {}).ok()); }

#if defined(__x86_64__)

TEST(CpuFeaturesTest, TheMachineHasItsOwnLevelAndThoseBelow) {
  const std::string level(cpu_isa_level());
  EXPECT_TRUE(check_cpu(level, {}).ok()) << level;
  EXPECT_TRUE(check_cpu("x86-64", {}).ok());
  for (const std::string_view known : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    EXPECT_EQ(check_cpu(known, {}).ok(), known <= level) << known;
    EXPECT_FALSE(features_of_isa_level(known).empty());
  }
  EXPECT_TRUE(features_of_isa_level("x86-64-v9").empty());
}

// The compiler asks the processor, we ask the kernel.
TEST(CpuFeaturesTest, AgreesWithTheCompilersOwnProbe) {
  EXPECT_EQ(cpu_has_feature("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(cpu_has_feature("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(cpu_has_feature("sse4_2"), __builtin_cpu_supports("sse4.2") != 0);
}

TEST(CpuFeaturesTest, WithoutProcTheProcessorIsAsked) {
  const auto found = read_cpu_features("/no/cpuinfo");
  const std::string_view level = cpu_isa_level();
  for (const std::string_view known : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    for (const std::string_view feature : features_of_isa_level(known)) {
      EXPECT_EQ(found.count(feature) > 0, known <= level) << feature;
    }
  }
  for (const std::string_view feature : {"avx512_vnni", "avx512_bf16"}) {
    EXPECT_EQ(found.count(feature) > 0, cpu_has_feature(feature)) << feature;
  }
}

#endif

}  // namespace
}  // namespace pteron
