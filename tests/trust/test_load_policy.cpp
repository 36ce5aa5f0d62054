// Signatures under each policy, in C++ and in the runner; cases.py has the cases.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/module.h"
#include "pteron/runtime/trust/load_policy.h"
#include "pteron/runtime/trust/pteron_trust.h"

namespace pteron {
namespace {

using Json = nlohmann::json;

const std::string kFolder = "tests/trust/";
const std::string kProgram = kFolder + "model.pte";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const Json& cases() {
  static const Json parsed = [] {
    const std::string file = ::testing::TempDir() + "/cases.json";
    const std::string command = kFolder + "cases " + kProgram + " " + kFolder + "model.ptd " + file;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return Json::parse(read(file));
  }();
  return parsed;
}

LoadPolicy policy_of(const Json& json) {
  LoadPolicy policy;
  policy.trusted_keys = json["keys"].get<std::vector<std::string>>();
  policy.required = json["required"];
  policy.minimum_version = json["minimum_version"];
  if (!json["allowed_backends"].is_null()) {
    policy.allowed_backends = json["allowed_backends"].get<std::vector<std::string>>();
  }
  return policy;
}

std::shared_ptr<std::string> contents(const Json& json, size_t which) {
  auto bytes = std::make_shared<std::string>(read(kFolder + (which ? "model.ptd" : "model.pte")));
  for (const Json& change : json["changes"]) {
    if (change[0] != which) continue;
    const int64_t offset = change[1];
    if (offset == -1) {
      bytes->pop_back();
    } else if (offset == -2) {
      bytes->push_back(0);
    } else {
      (*bytes)[static_cast<size_t>(offset)] ^= static_cast<char>(change[2].get<int>());
    }
  }
  return bytes;
}

FileInMemory in_memory(const std::shared_ptr<std::string>& bytes) {
  return {{reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, nullptr};
}

// The code of the first error on the way to a loaded program.
Error::Code load(const Json& json) {
  const auto program = contents(json, 0), data = contents(json, 1);
  LoadOptions options;
  options.data_files = {in_memory(data)};
  const std::string folder = ::testing::TempDir() + "/";
  // Without a signature, policies are of files that have none beside them.
  Result<LoadOptions> trusted =
      json["signature"].is_null()
          ? trusted_options(policy_of(json), folder + "unsigned.pte", options)
          : trusted_options_of(policy_of(json), json["signature"].get<std::string>(), options);
  if (!trusted.ok()) return trusted.error().code();
  const auto loaded = Program::load(in_memory(program).bytes, nullptr, *trusted);
  return loaded.ok() ? Error::Ok : loaded.error().code();
}

std::set<std::string> executable_mappings() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r-xp ") != std::string::npos || line.find(" rwxp ") != std::string::npos) {
      found.insert(line);
    }
  }
  return found;
}

TEST(LoadPolicy, EveryCase) {
  ASSERT_GT(cases().size(), 120u);
  const std::set<std::string> before = executable_mappings();
  for (const Json& json : cases()) {
    const std::string expected = json["outcome"];
    const Error::Code found = load(json);
    if (expected == "any") {
      EXPECT_NE(found, Error::Ok) << json["name"];
    } else {
      EXPECT_EQ(Error::name(found), expected) << json["name"];
    }
  }
  EXPECT_EQ(executable_mappings(), before);
}

// Edits at random places: an error, or the options of the signature.
TEST(LoadPolicy, SurvivesDamage) {
  const Json& json = cases()[0];
  const std::string whole = json["signature"];
  const LoadPolicy policy = policy_of(json);
  const auto expected = value_of(trusted_options_of(policy, whole)).allowed_files;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string edited = whole;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % edited.size();
      switch (random() % 4) {
        case 0:
          edited[at] = static_cast<char>(random());
          break;
        case 1:
          edited.erase(at, random() % 8);
          break;
        case 2:
          edited.insert(at, edited.substr(random() % edited.size(), random() % 8));
          break;
        default:
          edited.insert(at, 1, "{}[]\"\\,:0"[random() % 9]);
      }
    }
    const Result<LoadOptions> found = trusted_options_of(policy, edited);
    if (found.ok()) {
      EXPECT_EQ(found->allowed_files, expected) << edited;
    } else {
      EXPECT_EQ(found.error(), Error::AccessFailed) << edited;
    }
  }
}

// What `pteron_program(signing_key = ...)` makes, by path and in a Module.
TEST(LoadPolicy, TakesWhatTheBuildSigned) {
  LoadPolicy policy;
  policy.trusted_keys = {read(kFolder + "key.pub.pem")};
  policy.minimum_version = 3;
  LoadOptions options;
  options.data_paths = {kFolder + "model.ptd"};
  Module module(kProgram, {value_of(trusted_options(policy, kProgram, options)), {}});
  const std::set<std::string> before = executable_mappings();
  ASSERT_EQ(module.load(), Error::Ok);
  EXPECT_EQ(executable_mappings(), before);
  const Error error = module.load_method("forward");
  ASSERT_EQ(error, Error::Ok) << error.message();
  EXPECT_NE(executable_mappings(), before);
  options.allowed_files.emplace(1);  // the digest of another file
  EXPECT_EQ(Module(kProgram, {options, {}}).load(), Error::AccessFailed);
  policy.minimum_version = 4;
  const Result<LoadOptions> newer = trusted_options(policy, kProgram, {});
  ASSERT_EQ(newer.error(), Error::AccessFailed);
  EXPECT_NE(newer.error().message().find("version 3"), std::string::npos);
}

TEST(LoadPolicy, InC) {
  const std::string key = read(kFolder + "key.pub.pem");
  const std::string other = cases()[0]["keys"][0].get<std::string>();
  const std::string data = kFolder + "model.ptd";
  const char* const data_paths[] = {data.c_str()};
  pteron_load_options options = {};
  options.data_paths = data_paths;
  options.data_paths_size = 1;
  const char* keys[] = {other.c_str(), key.c_str()};
  pteron_load_policy policy = {};
  policy.trusted_keys = keys;
  policy.trusted_keys_size = 2;
  policy.minimum_version = 3;
  const auto load = [&](const std::string& path, const pteron_load_policy* by) {
    pteron_module* module = nullptr;
    const pteron_status status = pteron_load_trusted(path.c_str(), &options, by, &module);
    EXPECT_EQ(status == 0, module != nullptr);
    pteron_free(module);
    return status;
  };
  EXPECT_EQ(load(kProgram, &policy), 0u) << pteron_last_error();
  policy.minimum_version = 4;
  EXPECT_EQ(load(kProgram, &policy), Error::AccessFailed);
  EXPECT_NE(std::string(pteron_last_error()).find("the policy's minimum is 4"), std::string::npos);
  policy.minimum_version = 0;
  policy.trusted_keys_size = 1;
  EXPECT_EQ(load(kProgram, &policy), Error::AccessFailed);
  const std::string copy = ::testing::TempDir() + "/unsigned.pte";
  std::ofstream(copy, std::ios::binary) << read(kProgram);
  EXPECT_EQ(load(copy, &policy), Error::AccessFailed);
  policy.allow_unsigned = 1;
  EXPECT_EQ(load(copy, &policy), 0u) << pteron_last_error();
  policy.allow_unsigned = 2;
  EXPECT_EQ(load(copy, &policy), Error::InvalidArgument);
  policy.allow_unsigned = 0;
  policy.trusted_keys = nullptr;
  EXPECT_EQ(load(kProgram, &policy), Error::InvalidArgument);
  EXPECT_EQ(load(kProgram, nullptr), Error::InvalidArgument);
  pteron_module* module = nullptr;
  policy.trusted_keys = keys;
  EXPECT_EQ(pteron_load_trusted(nullptr, nullptr, &policy, &module), Error::InvalidArgument);
  EXPECT_EQ(pteron_load_trusted(kProgram.c_str(), nullptr, &policy, nullptr),
            Error::InvalidArgument);
}

// A file that is replaced after its signature was read.
TEST(LoadPolicy, WhatIsLoadedIsWhatWasSigned) {
  LoadPolicy policy;
  policy.trusted_keys = {read(kFolder + "key.pub.pem")};
  LoadOptions options;
  options.data_paths = {kFolder + "model.ptd"};
  const LoadOptions trusted = value_of(trusted_options(policy, kProgram, options));
  ASSERT_TRUE(Program::load(kProgram, trusted).ok());
  const std::string other = ::testing::TempDir() + "/other.pte";
  std::string bytes = read(kProgram);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(other, std::ios::binary) << bytes;
  EXPECT_FALSE(Program::load(other, trusted).ok());
  LoadOptions none = trusted;
  none.allowed_files->clear();
  EXPECT_EQ(Program::load(kProgram, none).error(), Error::AccessFailed);
}

// Exit code and stderr.
std::pair<int, std::string> run(const std::string& runner, const std::string& arguments) {
  const std::string line = "tools/runner/" + runner + " --program " + kProgram + " --data " +
                           kFolder + "model.ptd " + arguments + " 2>&1 >/dev/null";
  FILE* const pipe = popen(line.c_str(), "r");
  std::string said;
  std::array<char, 4096> part;
  for (size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.append(part.data(), n);
  }
  return {WEXITSTATUS(pclose(pipe)), said};
}

TEST(LoadPolicy, Runner) {
  const std::string key = " --trusted_keys " + kFolder + "key.pub.pem ";
  EXPECT_EQ(run("verifying_runner", key).second, "");
  EXPECT_EQ(run("verifying_runner", key + "--minimum_version 3").first, 0);
  const auto [code, said] = run("verifying_runner", key + "--minimum_version 4");
  EXPECT_EQ(code, 1);
  EXPECT_NE(said.find("the policy's minimum is 4"), std::string::npos) << said;
  const std::string other = ::testing::TempDir() + "/other.pem";
  std::ofstream(other) << cases()[0]["keys"][0].get<std::string>();
  EXPECT_NE(run("verifying_runner", "--trusted_keys " + other).second.find("none of the 1"),
            std::string::npos);
  EXPECT_NE(run("verifying_runner", "--trusted_keys /none.pem").second.find("/none.pem"),
            std::string::npos);
  EXPECT_NE(run("runner", key).second.find("verifying_runner"), std::string::npos);
  EXPECT_EQ(run("runner", "").first, 0);
}

}  // namespace
}  // namespace pteron
