#include <gtest/gtest.h>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/tools/runner/arguments.h"

namespace pteron::runner {
namespace {

Result<Arguments> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "runner");
  return parse_arguments(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Arguments, Example) {
  const auto parsed = value_of(parse(
      {"--program", "m.pte", "--data=a.ptd", "--data", "b.ptd", "--method=prefill,decode",
       "--inputs=x,y", "--repeat", "3", "--describe", "--prepare", "--verification=full",
       "--backend_option", "CpuBackend:num_threads=2", "--backend_option=CpuBackend:fast=true",
       "--backend_option=CpuBackend:mode=a=b", "--device=cuda:0=cuda:1"}));
  EXPECT_EQ(parsed.program, "m.pte");
  EXPECT_EQ(parsed.load.data_paths, (std::vector<std::string>{"a.ptd", "b.ptd"}));
  EXPECT_EQ(parsed.load.verification, Verification::Full);
  EXPECT_EQ(parsed.methods, (std::vector<std::string>{"prefill", "decode"}));
  EXPECT_EQ(parsed.inputs, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(parsed.repeat, 3);
  EXPECT_TRUE(parsed.describe);
  EXPECT_TRUE(parsed.prepare);
  const std::vector<BackendOption>& options = parsed.backend_options.at("CpuBackend");
  ASSERT_EQ(options.size(), 3u);
  EXPECT_EQ(options[0].key, "num_threads");
  EXPECT_EQ(std::get<int64_t>(options[0].value), 2);
  EXPECT_EQ(std::get<bool>(options[1].value), true);
  EXPECT_EQ(std::get<std::string>(options[2].value), "a=b");
  EXPECT_EQ(parsed.devices[*parse_device("cuda:0")], *parse_device("cuda:1"));
}

TEST(Arguments, Defaults) {
  const auto parsed = value_of(parse({"--program=m.pte"}));
  EXPECT_EQ(parsed.methods, (std::vector<std::string>{"forward"}));
  EXPECT_EQ(parsed.load.verification, Verification::InternalConsistency);
  EXPECT_FALSE(parsed.load.allowed_backends);
  EXPECT_FALSE(parsed.describe);
  EXPECT_FALSE(parsed.prepare);
}

TEST(Arguments, AnEmptyListOfBackendsAllowsNone) {
  using Ids = std::vector<std::string>;
  EXPECT_EQ(parse({"--program=m.pte", "--allowed_backends="})->load.allowed_backends, Ids{});
  EXPECT_EQ(parse({"--program=m.pte", "--allowed_backends", "A,B"})->load.allowed_backends,
            (Ids{"A", "B"}));
}

TEST(Arguments, HelpNeedsNothingElse) {
  const auto parsed = value_of(parse({"--help"}));
  EXPECT_TRUE(parsed.help);
}

TEST(Arguments, AllProblemsAtOnce) {
  const Result<Arguments> parsed =
      parse({"file", "--repeat=x", "--verification=some", "--backend_option=CpuBackend",
             "--speed=1", "--minimum_version=-1", "--allow_unsigned", "--inputs=a,b",
             "--device=cuda:1", "--describe=maybe", "--outputs"});
  ASSERT_FALSE(parsed.ok());
  const std::string message = parsed.error().message();
  for (const char* expected :
       {"found \"file\", expected a flag", "--repeat: found \"x\"",
        "--verification: found \"some\"", "expected Backend:key=value",
        "unknown flag --speed; --help lists the flags", "--inputs: found 2 files for 1 methods",
        "--device: found \"cuda:1\"", "--describe: found \"maybe\"", "--outputs: missing value",
        "--minimum_version: found \"-1\"", "expected --trusted_keys, too", "--program: missing"}) {
    EXPECT_NE(message.find(expected), std::string::npos) << expected << "\n" << message;
  }
}

}  // namespace
}  // namespace pteron::runner
