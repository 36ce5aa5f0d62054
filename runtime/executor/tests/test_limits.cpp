// Limits of a program, and ways to end a run.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs
using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Method>> load(const ProgramSpec& spec, const Limits& limits = {}) {
  LoadOptions options;
  options.limits = limits;
  auto program = Program::load(write_program(spec), nullptr, options);
  EXPECT_TRUE(program.ok()) << program.error().message();
  return (*program)->load_method("forward");
}

void expect_message(const Error& error, Error::Code code, const std::string& text) {
  EXPECT_EQ(error, code) << error.message();
  EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
}

// Counts in a mutable buffer, or does nothing but jump, without an end.
ProgramSpec endless(bool counts) {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  TensorSpec spec = TensorSpec::planned({4}, 0);
  const int tensor = method.add(spec);
  const int never = method.add(false);
  const int one = method.add(int64_t{1});
  if (counts) method.kernel("test::fill.out", {one, tensor, tensor});
  method.instruction(JumpFalseSpec{never, 0});
  method.outputs = {tensor};
  return program;
}

Limits with_instructions(uint64_t instructions) {
  Limits limits;
  limits.instructions = instructions;
  return limits;
}

Limits endless_instructions() { return with_instructions(UINT64_MAX); }

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(LimitsTest, InstructionsEndALoop) {
  for (const bool counts : {false, true}) {
    for (const uint64_t limit : {0, 1, 1000}) {
      const auto method = value_of(load(endless(counts), with_instructions(limit)));
      expect_message(method->execute(), Error::OutOfResources,
                     "it has run " + std::to_string(limit) + " instructions without an end");
    }
  }
}

TEST(LimitsTest, RunTimeEndsALoop) {
  for (const bool counts : {false, true}) {
    for (const double seconds : {0.0, 0.05}) {
      Limits limits = endless_instructions();
      limits.run_time = seconds;
      const auto method = value_of(load(endless(counts), limits));
      const auto start = Clock::now();
      for (int round = 0; round < 2; ++round) {  // it is as usable as before
        expect_message(method->execute(), Error::TimedOut, "the limit run_time");
      }
      EXPECT_GE(seconds_since(start), seconds);
      EXPECT_LT(seconds_since(start), 2 * seconds + 2);
    }
  }
}

TEST(LimitsTest, ATimeoutIsOfOneCall) {
  const auto method = value_of(load(endless(true), endless_instructions()));
  ExecuteOptions options;
  for (const double timeout : {0.0, -3.0, 0.02}) {
    options.timeout = timeout;
    expect_message(method->execute(options), Error::TimedOut, "the timeout of this call");
  }
  options.timeout = std::nan("");
  expect_message(method->execute(options), Error::InvalidArgument, "timeout is no number");
  Limits limits = endless_instructions();
  limits.run_time = 0.02;
  const auto limited = value_of(load(endless(true), limits));
  options.timeout = 1000;
  expect_message(limited->execute(options), Error::TimedOut, "the limit run_time");
}

TEST(LimitsTest, WrongLimitsAreRefused) {
  for (const double seconds : {-1.0, std::nan("")}) {
    LoadOptions options;
    options.limits.run_time = seconds;
    const auto program = Program::load(write_program(endless(true)), nullptr, options);
    ASSERT_FALSE(program.ok());
    expect_message(program.error(), Error::InvalidArgument, "limit run_time");
    const auto other = Program::load(write_program(endless(true)));
    LoadMethodOptions method_options;
    method_options.limits = options.limits;
    const auto method = (*other)->load_method("forward", method_options);
    ASSERT_FALSE(method.ok());
    expect_message(method.error(), Error::InvalidArgument, "limit run_time");
  }
}

// The least limit with which `spec` can be loaded.
uint64_t least_planned_bytes(const ProgramSpec& spec) {
  uint64_t refused = 0, enough = uint64_t{1} << 40;
  Limits limits;
  limits.planned_bytes = 0;
  if (load(spec, limits).ok()) return 0;
  while (enough - refused > 1) {
    limits.planned_bytes = (enough + refused) / 2;
    const auto method = load(spec, limits);
    if (!method.ok())
      expect_message(method.error(), Error::MemoryAllocationFailed, "planned_bytes");
    (method.ok() ? enough : refused) = limits.planned_bytes;
  }
  return enough;
}

TEST(LimitsTest, PlannedBytesCountAllTensorsOfAMethod) {
  {
    ProgramSpec program;  // 1024 bytes are planned
    MethodSpec& method = program.add_method("forward");
    const int x = method.add(TensorSpec::input({1 << 20}));
    const int y = method.add(TensorSpec::planned({64}, 0));
    method.inputs = {x};
    method.outputs = {y};
    EXPECT_EQ(least_planned_bytes(program), 1024) << "inputs are the caller's";
    method.outputs = {y, y, y};
    EXPECT_EQ(least_planned_bytes(program), 1024 + 2 * 256);
    method.outputs = {x};
    EXPECT_EQ(least_planned_bytes(program), 1024 + (4 << 20));
  }
  {
    ProgramSpec program;
    MethodSpec& method = program.add_method("forward");
    method.outputs = {method.add(TensorSpec::input({1 << 30})),
                      method.add(TensorSpec::input({1 << 20, 100}).bounded())};
    const uint64_t expected = 1024 + (uint64_t{4} << 30) + (uint64_t{400} << 20);
    EXPECT_EQ(least_planned_bytes(program), expected) << "outputs without memory in the file";
  }
  {
    ProgramSpec program;
    MethodSpec& method = program.add_method("forward");
    const int large = method.add(TensorSpec::input({1 << 20}));
    method.outputs = {method.add(TensorListSpec{std::vector<int32_t>{large, large}})};
    EXPECT_EQ(least_planned_bytes(program), 1024 + (8 << 20)) << "tensors in lists";
  }
}

TEST(LimitsTest, AMethodMayHaveOthersThanItsProgram) {
  Limits limits;
  limits.planned_bytes = 10;
  LoadOptions options;
  options.limits = limits;
  const auto program = value_of(Program::load(write_program(endless(true)), nullptr, options));
  EXPECT_FALSE(program->load_method("forward").ok());
  LoadMethodOptions method_options;
  method_options.limits.emplace().instructions = 7;
  const auto method = value_of(program->load_method("forward", method_options));
  expect_message(method->execute(), Error::OutOfResources, "it has run 7 instructions");
}

TEST(LimitsTest, LoadBytesCountCopiesOfFiles) {
  const Bytes bytes = write_program(endless(true));
  LoadOptions options;
  options.limits.load_bytes = bytes.size() - 1;
  const auto refused = Program::load(bytes, nullptr, options);
  ASSERT_FALSE(refused.ok());
  expect_message(refused.error(), Error::MemoryAllocationFailed, "load_bytes");
  options.limits.load_bytes = bytes.size();
  EXPECT_TRUE(Program::load(bytes, nullptr, options).ok());

  // In place: nothing is copied.
  options.limits.load_bytes = 0;
  const auto owner = std::shared_ptr<uint8_t>(
      static_cast<uint8_t*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64)), &std::free);
  std::memcpy(owner.get(), bytes.data(), bytes.size());
  EXPECT_TRUE(Program::load({owner.get(), bytes.size()}, owner, options).ok());

  // A data file beside it shares what there is.
  TensorDataSpec data;
  data.add_blob("key", Bytes(5000));
  const Bytes data_bytes = write_tensor_data(data);
  options.data_files.push_back({data_bytes, nullptr});
  options.limits.load_bytes = bytes.size() + data_bytes.size() - 1;
  const auto both = Program::load(bytes, nullptr, options);
  ASSERT_FALSE(both.ok());
  expect_message(both.error(), Error::MemoryAllocationFailed, "tensor data 0 in memory");
  ++options.limits.load_bytes;
  EXPECT_TRUE(Program::load(bytes, nullptr, options).ok());
}

TEST(CancelTest, ARunEndsAndTheNextIsLikeAnother) {
  for (const bool counts : {false, true}) {
    const auto loaded = value_of(load(endless(counts), endless_instructions()));
    Method& method = *loaded;
    EXPECT_FALSE(method.cancel()) << "nothing runs";
    for (int round = 0; round < 3; ++round) {
      std::thread other([&] {
        while (!method.cancel()) std::this_thread::yield();
      });
      expect_message(method.execute(), Error::Cancelled, "cancel() ended the run");
      other.join();
      EXPECT_FALSE(method.cancel()) << "nothing runs";
    }
  }
}

TEST(CancelTest, NeverMeetsTheNextRun) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int tensor = spec.add(TensorSpec::planned({4}, 0));
  const int one = spec.add(int64_t{1});
  for (int i = 0; i < 20; ++i) spec.kernel("test::fill.out", {one, tensor, tensor});
  spec.outputs = {tensor};
  const auto loaded = value_of(load(program));
  Method& method = *loaded;
  std::atomic<bool> is_over{false};
  int told = 0, ended = 0;
  std::thread other([&] {
    while (!is_over.load()) told += method.cancel();
  });
  for (int i = 0; i < 20000; ++i) {
    const Error error = method.execute();
    EXPECT_TRUE(error.ok() || error == Error::Cancelled) << error.message();
    ended += !error.ok();
  }
  is_over.store(true);
  other.join();
  EXPECT_LE(ended, told);
  EXPECT_TRUE(method.execute().ok());
}

TEST(CancelTest, WhoCallsIsAskedWhileARunLasts) {
  const auto loaded = value_of(load(endless(true), endless_instructions()));
  int asked = 0;
  ExecuteOptions options;
  options.poll_context = &asked;
  options.poll = [](void* context) -> Error {
    return ++*static_cast<int*>(context) < 3 ? Error(Error::Ok)
                                             : Error(Error::EndOfMethod, "enough");
  };
  const auto start = Clock::now();
  expect_message(loaded->execute(options), Error::EndOfMethod, "enough");
  EXPECT_EQ(asked, 3);
  EXPECT_GE(seconds_since(start), 0.1);
  EXPECT_LT(seconds_since(start), 2);
}

}  // namespace
}  // namespace pteron
