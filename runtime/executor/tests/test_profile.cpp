// What a Profile records, and its JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/profile.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs
using Json = nlohmann::json;

std::vector<Json> events(const Profile& profile, const std::string& phase = "X") {
  std::vector<Json> found;
  const Json trace = Json::parse(profile.to_json());
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST(ProfileTest, EventsHaveTimesInsideEachOther) {
  Profile profile;
  const uint64_t outer = profile.begin("method", "forward");
  const uint64_t inner = profile.begin("kernel", "add");
  EventDetails details;
  details.op = "aten.add.out";
  details.module = "layer.0";
  details.source = "model.py:3";
  details.shapes = "float32[2]";
  details.nbytes = 8;
  profile.end(inner);
  profile.describe(inner, details);
  profile.end(outer);
  const std::vector<Json> found = events(profile);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["name"], "forward");
  EXPECT_GE(found[1]["ts"], found[0]["ts"]);
  EXPECT_LE(found[1]["dur"], found[0]["dur"]);
  const Json& args = found[1]["args"];
  EXPECT_EQ(args["kind"], "kernel");
  EXPECT_EQ(args["op"], "aten.add.out");
  EXPECT_EQ(args["module"], "layer.0");
  EXPECT_EQ(args["source"], "model.py:3");
  EXPECT_EQ(args["shapes"], "float32[2]");
  EXPECT_EQ(args["bytes"], 8);
  EXPECT_EQ(args["threads"], 1);
}

TEST(ProfileTest, WhatHasNotEndedIsLeftOut) {
  Profile profile;
  profile.begin("method", "forward");
  profile.end(profile.begin("kernel", "add"));
  const std::vector<Json> found = events(profile);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["name"], "add");
}

TEST(ProfileTest, AnyTextIsValidJson) {
  Profile profile;
  const std::string name = "a\"b\\c\n\x01\xff \xc3\xa9";
  profile.end(profile.begin("kernel", name));
  EXPECT_EQ(events(profile)[0]["name"], "a\"b\\c\\x0a\\x01\\xff \xc3\xa9");
}

TEST(ProfileTest, CountersHaveValuesOverTime) {
  Profile profile;
  profile.count("memory", 5);
  profile.count("memory", 7);
  const std::vector<Json> found = events(profile, "C");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["args"]["value"], 7);
  EXPECT_GE(found[1]["ts"], found[0]["ts"]);
}

TEST(ProfileTest, DevicesHaveRowsOfTheirOwn) {
  Profile profile;
  const uint64_t event = profile.begin("compiled", "triton_0");
  profile.end(event);
  profile.record_on_device(event, 1000, 5500, "stream 0x0");
  const std::vector<Json> found = events(profile);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["dur"], 5.5);
  EXPECT_EQ(found[1]["args"]["stream"], "stream 0x0");
  EXPECT_NE(found[1]["tid"], found[0]["tid"]);
}

TEST(ProfileTest, ThereIsALimit) {
  Profile profile(2);
  for (int i = 0; i < 5; ++i) profile.end(profile.begin("kernel", "add"));
  EXPECT_EQ(events(profile).size(), 2u);
  EXPECT_EQ(Json::parse(profile.to_json())["dropped"], 3);
}

TEST(ProfileTest, ThreadsShareOne) {
  Profile profile;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 500; ++k) profile.end(profile.begin("kernel", "add"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(events(profile).size(), 2000u);
}

TEST(ProfileTest, AMethodRecordsItsInstructionsWhileItHasATracer) {
  ProgramSpec spec;
  MethodSpec& method_spec = spec.add_method("forward");
  const int x = method_spec.add(TensorSpec::input({2}));
  const int out = method_spec.add(TensorSpec::planned({2}, 0));
  method_spec.inputs = {x};
  method_spec.outputs = {out};
  method_spec.kernel("test::add.out", {x, x, out, out});
  const auto program = value_of(Program::load(write_program(spec)));
  auto method = value_of(program->load_method("forward"));
  float data[] = {1, 2};
  const int64_t sizes[] = {2};
  const EValue input(*Tensor::make(ScalarType::Float, sizes, data));
  const auto run = [&] {
    ASSERT_TRUE(method->set_input(0, input).ok());
    ASSERT_TRUE(method->execute().ok());
  };
  Profile profile;
  run();
  ASSERT_TRUE(method->set_tracer(&profile).ok());
  run();
  ASSERT_TRUE(method->set_tracer(nullptr).ok());
  run();
  const std::vector<Json> found = events(profile);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["name"], "forward");
  EXPECT_EQ(found[1]["args"]["op"], "test::add.out");
  EXPECT_EQ(found[1]["args"]["shapes"], "float32[2] float32[2] float32[2] float32[2]");
  EXPECT_EQ(found[1]["args"]["bytes"], 32);
}

}  // namespace
}  // namespace pteron
