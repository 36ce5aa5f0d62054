// Programs that are well-formed and mean harm, and inputs that do: none reaches memory that is not
// its own.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

using Sizes = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr char kView[] = "executorch_prim::et_view.default";
constexpr char kCopyIndex[] = "executorch_prim::et_copy_index.tensor";

EValue tensor(Floats& data) {
  const int64_t sizes[] = {static_cast<int64_t>(data.size())};
  return EValue(*Tensor::make(ScalarType::Float, sizes, data.data()));
}

Result<std::unique_ptr<Method>> try_load(const ProgramSpec& spec, bool separate_tensors = false) {
  auto program = Program::load(write_program(spec));
  if (!program.ok()) return program.take_error();
  LoadMethodOptions options;
  options.separate_tensors = separate_tensors;
  return (*program)->load_method("forward", options);
}

std::unique_ptr<Method> load(const ProgramSpec& spec, bool separate_tensors = false) {
  auto method = try_load(spec, separate_tensors);
  EXPECT_TRUE(method.ok()) << method.error().message();
  return std::move(*method);
}

void expect_message(const Error& error, Error::Code code, const std::string& text) {
  EXPECT_EQ(error, code) << error.message();
  EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
}

// A bounded input grows no further than the memory that the caller gave for it.
TEST(MemorySafetyTest, InputsDoNotGrow) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({4}).bounded());
  const int four = spec.add(TensorSpec::planned({4}, 0));
  spec.kernel("test::add.out", {four, four, x, x});
  spec.inputs = {x};
  const auto method = load(program);
  Floats two(2), all(4);
  ASSERT_TRUE(method->set_input(0, tensor(two)).ok());
  expect_message(method->execute(), Error::InvalidArgument, "takes 16 bytes, and its memory has 8");
  ASSERT_TRUE(method->set_input(0, tensor(all)).ok());
  EXPECT_TRUE(method->execute().ok());
}

// An input without elements has no address, but every index is within its bound.
TEST(MemorySafetyTest, NothingIsWrittenAtAnOffsetFromNull) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({1 << 30}).bounded());
  const int zero = spec.add(TensorSpec::planned({}, 0));
  spec.kernel(kCopyIndex, {x, zero, spec.add(int64_t{1 << 29}), x});
  spec.inputs = {x};
  const auto method = load(program);
  const int64_t none[] = {0};
  ASSERT_TRUE(method->set_input(0, EValue(*Tensor::make(ScalarType::Float, none, nullptr))).ok());
  expect_message(method->execute(), Error::InvalidArgument, "its memory has 0");
}

// A view grows no further than what it looks at.
TEST(MemorySafetyTest, ViewsDoNotGrow) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({2}));
  const int view = spec.add(TensorSpec::planned({4}, 0).bounded());
  const int four = spec.add(TensorSpec::planned({4}, 64));
  spec.kernel(kView, {x, spec.add(Sizes{2}), view});
  spec.kernel("test::add.out", {four, four, view, view});
  spec.inputs = {x};
  const auto method = load(program);
  Floats two(2);
  ASSERT_TRUE(method->set_input(0, tensor(two)).ok());
  expect_message(method->execute(), Error::InvalidArgument, "takes 16 bytes, and its memory has 8");
}

// A program that redirects a slot to input x only where the input `flag` is true, and then clones
// the slot to its output.
struct Redirecting {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  int flag = spec.add(false);
  int x = spec.add(TensorSpec::input({2}));
  int out = spec.add(TensorSpec::planned({2}, 0));

  std::unique_ptr<Method> finish(int slot, const std::function<void()>& redirect) {
    spec.instruction(JumpFalseSpec{flag, 2});
    redirect();
    spec.kernel("aten::clone.out", {slot, spec.add(NoneSpec{}), out, out});
    spec.inputs = {flag, x};
    spec.outputs = {out};
    return load(program);
  }
};

Error run(Method& method, bool flag, Floats& x) {
  const EValue inputs[] = {EValue(flag), tensor(x)};
  PTERON_RETURN_IF_ERROR(method.set_inputs(inputs));
  return method.execute();
}

Floats floats_of(const EValue& value) {
  const auto* const data = value.tensor().data_as<const float>();
  return {data, data + value.tensor().numel()};
}

TEST(MemorySafetyTest, AViewIsForgottenBeforeTheNextRun) {
  Redirecting it;
  const int view = it.spec.add(TensorSpec::planned({2}, 64));
  const auto method =
      it.finish(view, [&] { it.spec.kernel(kView, {it.x, it.spec.add(Sizes{2}), view}); });
  Floats freed{7, 7}, x{1, 1};
  ASSERT_TRUE(run(*method, true, freed).ok());
  EXPECT_EQ(floats_of(method->get_output(0)), freed);
  ASSERT_TRUE(run(*method, false, x).ok());
  EXPECT_EQ(floats_of(method->get_output(0)), Floats(2)) << "its own memory";
}

TEST(MemorySafetyTest, AMoveIsForgottenBeforeTheNextRun) {
  Redirecting it;
  const int moved = it.spec.add(TensorSpec::input({2}));
  const auto method = it.finish(moved, [&] { it.spec.instruction(MoveSpec{it.x, moved}); });
  Floats freed{7, 7}, x{1, 1};
  ASSERT_TRUE(run(*method, true, freed).ok());
  EXPECT_EQ(floats_of(method->get_output(0)), freed);
  expect_message(run(*method, false, x), Error::InvalidProgram, "an argument has no memory");
}

// An input that was redirected into planned memory is no way to bring that in as an input.
TEST(MemorySafetyTest, PlannedMemoryIsNoInputEvenWhereAnInputWasRedirected) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({2}));
  const int planned = spec.add(TensorSpec::planned({2}, 0));
  spec.instruction(MoveSpec{planned, x});
  spec.inputs = {x};
  spec.outputs = {x, planned};
  const auto method = load(program);
  Floats data(2);
  ASSERT_TRUE(method->set_input(0, tensor(data)).ok());
  ASSERT_TRUE(method->execute().ok());
  const EValue output = method->get_output(1);
  expect_message(method->set_input(0, output), Error::InvalidArgument, "copy it first");
}

// out = x by way of `write`, which is jumped over where the input `flag` is false.
ProgramSpec unplanned_output(const std::string& write) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int flag = spec.add(false);
  const int x = spec.add(TensorSpec::input({2}));
  const int out = spec.add(TensorSpec::input({2}));
  spec.instruction(JumpFalseSpec{flag, 2});
  if (write == "clone") spec.kernel("aten::clone.out", {x, spec.add(NoneSpec{}), out, out});
  if (write == "view") spec.kernel(kView, {x, spec.add(Sizes{-1}), out});
  if (write == "move") spec.instruction(MoveSpec{x, out});
  if (write == "list") spec.instruction(MoveSpec{x, x});
  spec.inputs = {flag, x};
  spec.outputs = {write == "list" ? spec.add(TensorListSpec{{{x, out}}}) : out};
  return program;
}

TEST(MemorySafetyTest, OutputsThatNothingWroteAreZero) {
  const auto method = load(unplanned_output("clone"));
  Floats x{1, 2}, garbage{7, 7};
  ASSERT_TRUE(method->set_output_data(0, garbage.data(), 8).ok());
  ASSERT_TRUE(run(*method, false, x).ok());
  EXPECT_EQ(garbage, Floats(2));
  ASSERT_TRUE(run(*method, true, x).ok());
  EXPECT_EQ(garbage, x);
}

// What a delegate writes in every run is not written twice.
TEST(MemorySafetyTest, OutputsOfDelegatesAreNotZeroed) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  spec.delegates = {
      {kScaleBackend, true, 1, static_cast<uint32_t>(program.add_segment(text("2"))), {}}};
  const int x = spec.add(TensorSpec::input({2}));
  const int out = spec.add(TensorSpec::input({2}));
  spec.instruction(DelegateCallSpec{0, {{x, out}}});
  spec.inputs = {x};
  spec.outputs = {out};
  const auto method = load(program);
  Floats garbage{7, 7};
  ASSERT_TRUE(method->set_output_data(0, garbage.data(), 8).ok());
  EXPECT_EQ(garbage, (Floats{7, 7}));
}

TEST(MemorySafetyTest, AViewIsAnOutputWithoutMemoryOfItsOwn) {
  const auto method = load(unplanned_output("view"));
  Floats x{1, 2}, unused(2);
  expect_message(method->set_output_data(0, unused.data(), 8), Error::InvalidState,
                 "memory of its own");
  ASSERT_TRUE(run(*method, true, x).ok());
  EXPECT_EQ(floats_of(method->get_output(0)), x);
}

TEST(MemorySafetyTest, OutputsWithoutMemoryAreRefused) {
  Floats x{1, 2};
  for (const char* const write : {"view", "move", "list"}) {
    const auto method = load(unplanned_output(write));
    expect_message(run(*method, false, x), Error::InvalidProgram,
                   "an output, or a tensor in one, float32[2], has no memory");
    EXPECT_EQ(run(*method, true, x).ok(), std::string(write) != "list");
  }
}

// Kernels may read again what they checked, an index say, while they write.
TEST(MemorySafetyTest, WhatIsWrittenOverlapsNoArgument) {
  for (const uint64_t offset : {0, 4, 8, 12}) {
    ProgramSpec program;
    MethodSpec& spec = program.add_method("forward");
    const int x = spec.add(TensorSpec::planned({2}, 4));
    const int out = spec.add(TensorSpec::planned({2}, offset));
    spec.kernel("test::add.out", {x, x, out, out});
    const auto method = try_load(program);
    EXPECT_EQ(method.ok(), offset == 12) << offset;
    if (method.ok()) continue;
    expect_message(method.error(), Error::InvalidProgram,
                   "instruction 0: what test::add.out writes overlaps another argument");
  }
}

TEST(MemorySafetyTest, WhatIsWrittenOverlapsNoItemOfAList) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int list = spec.add(OptionalTensorListSpec{{{-1, spec.add(TensorSpec::planned({2}, 0))}}});
  const int out = spec.add(TensorListSpec{{{spec.add(TensorSpec::planned({2}, 4))}}});
  spec.kernel("test::add.out", {list, list, out, out});
  EXPECT_EQ(try_load(program).error(), Error::InvalidProgram);
}

// By a view, a move, or two inputs of one caller, which are known when the call runs.
TEST(MemorySafetyTest, WhatIsWrittenOverlapsNoRedirectedArgument) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int out = spec.add(TensorSpec::planned({2}, 0));
  const int moved = spec.add(TensorSpec::planned({2}, 64));
  spec.instruction(MoveSpec{out, moved});
  spec.kernel("test::add.out", {moved, moved, out, out});
  expect_message(load(program)->execute(), Error::InvalidArgument,
                 "what it writes overlaps another argument");
}

TEST(MemorySafetyTest, WhatIsWrittenOverlapsNoOtherInput) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({2}));
  const int y = spec.add(TensorSpec::input({2}));
  spec.kernel("test::add.out", {x, x, y, y});
  spec.inputs = {x, y};
  const auto method = load(program);
  Floats data(3), other(2);
  const int64_t two[] = {2};
  const EValue begin(*Tensor::make(ScalarType::Float, two, data.data()));
  const EValue end(*Tensor::make(ScalarType::Float, two, data.data() + 1));
  EXPECT_TRUE(method->set_inputs(std::vector<EValue>{begin, tensor(other)}).ok());
  EXPECT_TRUE(method->execute().ok());
  EXPECT_TRUE(method->set_inputs(std::vector<EValue>{begin, end}).ok());
  expect_message(method->execute(), Error::InvalidArgument, "shares memory with input 0");
}

// The copy is told to write one tensor, and to return another.
TEST(MemorySafetyTest, CopiesFromADeviceWriteNoConstants) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  TensorSpec on_device = TensorSpec::input({2});
  on_device.has_extra = true;
  on_device.device_type = 1;
  const int x = spec.add(on_device);
  const int constant = spec.add(TensorSpec::constant({2}, program.add_constant(floats({1, 2}))));
  const int other = spec.add(TensorSpec::planned({2}, 0));
  spec.kernel("et_copy::_d2h_copy.out", {x, constant, other});
  spec.inputs = {x};
  const auto method = load(program);
  Floats data(2);
  const int64_t two[] = {2};
  const Device device{DeviceType::CUDA, 0};
  const EValue input(*Tensor::make(ScalarType::Float, two, data.data(), device));
  ASSERT_TRUE(method->set_input(0, input).ok());
  expect_message(method->execute(), Error::InvalidArgument, "is written is read-only");
}

TEST(MemorySafetyTest, TensorsHaveMemoryOfTheirOwnWhereAsked) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::planned({4}, 0));
  const int view = spec.add(TensorSpec::planned({4}, 0));  // which no instruction makes
  const int shorter = spec.add(TensorSpec::planned({2}, 0));
  const int beside = spec.add(TensorSpec::planned({2}, 16));
  const int seen = spec.add(TensorSpec::planned({2, 2}, 64));
  const int one = spec.add(int64_t{1});
  spec.kernel("test::fill.out", {one, x, x});
  spec.kernel(kView, {view, spec.add(Sizes{2, 2}), seen});
  spec.outputs = {x, view, shorter, beside, seen};
  for (const bool separate : {false, true}) {
    const auto method = load(program, separate);
    ASSERT_TRUE(method->execute().ok());
    const Floats ones(4, 1);
    EXPECT_EQ(floats_of(method->get_output(0)), ones);
    EXPECT_EQ(floats_of(method->get_output(1)), ones);
    EXPECT_EQ(floats_of(method->get_output(2)), Floats(2, separate ? 0 : 1));
    EXPECT_EQ(floats_of(method->get_output(4)), ones);
    const auto begin = [&](size_t i) { return method->get_output(i).tensor().data_as<float>(); };
    EXPECT_EQ(begin(0) + 4 == begin(3), !separate);
  }
}

// A file may say that a kernel returns something else than it writes: copies see it themselves.
TEST(MemorySafetyTest, CopiesOverlapNothing) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::planned({2}, 0));
  const int out = spec.add(TensorSpec::planned({2}, 4));
  const int other = spec.add(TensorSpec::planned({2}, 64));
  spec.kernel("aten::clone.out", {x, spec.add(NoneSpec{}), out, other});
  expect_message(load(program)->execute(), Error::InvalidArgument, "where some of them are");
}

}  // namespace
}  // namespace pteron
