// Inputs, outputs, failures and jumps of a loaded method.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

using Sizes = std::vector<int64_t>;

EValue tensor(std::vector<float>& data, const Sizes& sizes) {
  return EValue(*Tensor::make(ScalarType::Float, sizes, data.data()));
}

EValue tensor(std::vector<float>& data) {
  return tensor(data, {static_cast<int64_t>(data.size())});
}

std::vector<float> floats_of(const EValue& value) {
  const float* const data = value.tensor().data_as<const float>();
  return {data, data + value.tensor().numel()};
}

std::unique_ptr<Method> load(const ProgramSpec& spec, const LoadMethodOptions& options = {}) {
  auto program = Program::load(write_program(spec));
  EXPECT_TRUE(program.ok()) << program.error().message();
  auto method = (*program)->load_method("forward", options);
  EXPECT_TRUE(method.ok()) << method.error().message();
  return std::move(*method);
}

void expect_message(const Error& error, Error::Code code, const std::string& text) {
  EXPECT_EQ(error, code) << error.message();
  EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
}

// out = a + b, all float32[<=4, 3] of the caller.
ProgramSpec bounded_add() {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  const int a = method.add(TensorSpec::input({4, 3}).bounded());
  const int b = method.add(TensorSpec::planned({4, 3}, 0).bounded());
  const int out = method.add(TensorSpec::planned({4, 3}, 64).bounded());
  method.kernel("test::add.out", {a, b, out, out});
  method.inputs = {a, b};
  method.outputs = {out};
  return program;
}

TEST(MethodTest, BoundedInputsResizeWhatFollows) {
  const auto method = load(bounded_add());
  for (const int64_t rows : {4, 1, 0, 3}) {
    std::vector<float> a(rows * 3, 1);
    std::vector<float> b(rows * 3, 2);
    const std::vector<EValue> inputs{tensor(a, {rows, 3}), tensor(b, {rows, 3})};
    ASSERT_TRUE(method->set_inputs(inputs).ok());
    ASSERT_TRUE(method->execute().ok());
    EXPECT_EQ(method->get_output(0).tensor().size(0), rows);
    EXPECT_EQ(floats_of(method->get_output(0)), std::vector<float>(rows * 3, 3));
  }
}

// x becomes y + y, in place; float32[2, 3] of the caller.
ProgramSpec assign() {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({2, 3}));
  const int y = method.add(TensorSpec::input({2, 3}));
  method.kernel("test::add.out", {y, y, x, x});
  method.inputs = {x, y};
  return program;
}

TEST(MethodTest, InputsThatAreWritten) {
  const auto method = load(assign());
  EXPECT_TRUE(method->meta().inputs[0].written);
  EXPECT_FALSE(method->meta().inputs[1].written);
  std::vector<float> memory{0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
  const Sizes sizes{2, 3};
  const auto at = [&](size_t first) {
    return EValue(*Tensor::make(ScalarType::Float, sizes, memory.data() + first));
  };
  const std::vector<EValue> apart{at(0), at(6)}, shared{at(0), at(5)};
  ASSERT_TRUE(method->set_inputs(shared).ok());
  expect_message(method->execute(), Error::InvalidArgument, "shares memory with input 1");
  EXPECT_EQ(memory[0], 0);
  ASSERT_TRUE(method->set_inputs(apart).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(memory, (std::vector<float>{2, 4, 6, 8, 10, 12, 1, 2, 3, 4, 5, 6}));

  Tensor constant = *Tensor::make(ScalarType::Float, sizes, nullptr);
  constant.set_constant_data(memory.data(), 24);
  expect_message(method->set_input(0, EValue(constant)), Error::InvalidArgument, "read-only");
  EXPECT_TRUE(method->set_input(1, EValue(constant)).ok());

  // Of another layout: refused, rather than changed in a copy.
  const uint8_t columns_first[] = {1, 0};
  const EValue other(*Tensor::make(ScalarType::Float, sizes, columns_first, memory.data()));
  expect_message(method->set_input(0, other), Error::InvalidArgument, "make it contiguous");
}

TEST(MethodTest, UnplannedInputsAreAliasedAndPlannedOnesCopied) {
  const auto method = load(bounded_add());
  std::vector<float> a(6, 1);
  std::vector<float> b(6, 2);
  ASSERT_TRUE(method->set_input(0, tensor(a, {2, 3})).ok());
  ASSERT_TRUE(method->set_input(1, tensor(b, {2, 3})).ok());
  a[0] = 10;
  b[0] = 20;
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{12, 3, 3, 3, 3, 3}));
}

TEST(MethodTest, WrongInputsAreExplainedAndChangeNothing) {
  const auto method = load(bounded_add());
  std::vector<float> data(20, 1);
  ASSERT_TRUE(method->set_input(0, tensor(data, {2, 3})).ok());
  ASSERT_TRUE(method->set_input(1, tensor(data, {2, 3})).ok());

  expect_message(method->set_input(2, EValue()), Error::InvalidArgument, "no input 2, it takes 2");
  expect_message(method->set_input(0, EValue(int64_t{1})), Error::InvalidType,
                 "input 0: it is Int, expected float32[<=4, <=3]");
  expect_message(method->set_input(0, tensor(data, {5, 3})), Error::InvalidArgument,
                 "input 0: dimension 0 is 5, expected at most 4; export it with a larger max");
  expect_message(method->set_input(1, tensor(data, {6})), Error::InvalidArgument,
                 "it has 1 dimensions (float32[6]), expected 2");
  expect_message(method->set_input(0, tensor(data, {2, 4})), Error::InvalidArgument,
                 "it is float32[2, 4], expected float32[<=4, <=3]; its dimensions fit in another "
                 "order: permute(1, 0)");
  const Sizes sizes{2, 3};
  expect_message(
      method->set_input(0, EValue(*Tensor::make(ScalarType::Double, sizes, data.data()))),
      Error::InvalidType, "it is float64, expected float32; convert it");
  expect_message(method->set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, nullptr))),
                 Error::InvalidArgument, "has no data");
  const std::vector<uint8_t> transposed{1, 0};
  expect_message(method->set_input(
                     0, EValue(*Tensor::make(ScalarType::Float, sizes, transposed, data.data()))),
                 Error::InvalidArgument,
                 "its strides are [1, 2], expected dense in dim order [0, 1]");
  const Device cuda{DeviceType::CUDA, 1};
  expect_message(
      method->set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, data.data(), cuda))),
      Error::InvalidArgument, "it is on cuda:1, expected on cpu");

  ASSERT_TRUE(method->execute().ok()) << "the inputs from before are still there";
  EXPECT_EQ(floats_of(method->get_output(0)), std::vector<float>(6, 2));
}

TEST(MethodTest, AllWrongInputsAreReportedTogether) {
  const auto method = load(bounded_add());
  std::vector<float> data(30, 1);
  const std::vector<EValue> wrong{tensor(data, {9, 3}), EValue(2.5)};
  const Error error = method->set_inputs(wrong);
  expect_message(error, Error::InvalidArgument, "2 errors");
  EXPECT_NE(error.message().find("input 0: dimension 0 is 9"), std::string::npos);
  EXPECT_NE(error.message().find("input 1: it is Double"), std::string::npos);
  const std::vector<EValue> few{tensor(data, {1, 3})};
  expect_message(method->set_inputs(few), Error::InvalidArgument,
                 "1 inputs were given, it takes 2");
  const std::vector<EValue> half{tensor(data, {1, 3}), EValue(2.5)};
  EXPECT_FALSE(method->set_inputs(half).ok());
  expect_message(method->execute(), Error::InvalidState, "input 0 (float32[<=4, <=3]) is not set");
}

TEST(MethodTest, DimensionsOfOneElementHaveAnyStride) {
  const auto method = load(bounded_add());
  std::vector<float> data(3, 1);
  const Sizes sizes{1, 3};
  const std::vector<uint8_t> transposed{1, 0};
  EXPECT_TRUE(
      method->set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, transposed, data.data())))
          .ok());
}

TEST(MethodTest, NothingRunsBeforeEverythingIsSet) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({2}));
  const int n = spec.add(int64_t{1});
  const int out = spec.add(TensorSpec::input({2}));
  spec.kernel("test::add.out", {x, x, out, out});
  spec.kernel("test::add_int", {n, n, spec.add(int64_t{0})});
  spec.inputs = {x, n};
  spec.outputs = {out, out};
  const auto method = load(program);
  const Error error = method->execute();
  expect_message(error, Error::InvalidState, "3 errors");
  EXPECT_NE(error.message().find("input 1 (Int) is not set"), std::string::npos);
  EXPECT_NE(error.message().find("output 0 (float32[2]) has no memory"), std::string::npos);

  std::vector<float> in{1, 2};
  std::vector<float> result(2);
  ASSERT_TRUE(method->set_input(0, tensor(in)).ok());
  ASSERT_TRUE(method->set_input(1, EValue(int64_t{5})).ok());
  expect_message(method->set_output_data(0, result.data(), 7), Error::InvalidArgument,
                 "needs 8 bytes, 7 were given");
  expect_message(method->set_output_data(2, result.data(), 8), Error::InvalidArgument,
                 "no output 2");
  ASSERT_TRUE(method->set_output_data(0, result.data(), 8).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(result, (std::vector<float>{2, 4}));
  EXPECT_EQ(method->get_output(1).tensor().data(), result.data());
}

TEST(MethodTest, OutputsWithMemoryTakeNone) {
  const auto method = load(bounded_add());
  std::vector<float> memory(12);
  expect_message(method->set_output_data(0, memory.data(), 48), Error::InvalidState,
                 "has memory of its own");
}

TEST(MethodTest, SpecialisedScalarsMustBeTheOnesOfTheExport) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  spec.inputs = {spec.add(int64_t{3}), spec.add(0.1), spec.add(true), spec.add(StringSpec{"mode"}),
                 spec.add(NoneSpec{})};
  const auto method = load(program);
  EXPECT_TRUE(method->execute().ok()) << "they need not be given";
  const std::vector<EValue> right{EValue(int64_t{3}), EValue(double{0.1f}), EValue(true),
                                  EValue(std::string_view("mode")), EValue()};
  EXPECT_TRUE(method->set_inputs(right).ok());
  const std::vector<EValue> wrong{EValue(int64_t{4}), EValue(0.2), EValue(false),
                                  EValue(std::string_view("other")), EValue(int64_t{0})};
  const Error error = method->set_inputs(wrong);
  expect_message(error, Error::InvalidArgument, "5 errors");
  EXPECT_NE(error.message().find("input 0: it differs from Int 3"), std::string::npos);
  EXPECT_NE(error.message().find("input 3: it differs from String \"mode\""), std::string::npos);
}

TEST(MethodTest, AnInputWhoseMemoryIsReusedMustBeSetAgain) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::planned({2}, 0));
  const int y = spec.add(TensorSpec::planned({2}, 64));
  const int out = spec.add(TensorSpec::planned({2}, 0));  // where x was
  spec.kernel("test::add.out", {x, y, y, y});
  spec.kernel("test::add.out", {y, y, out, out});
  spec.inputs = {x, y};
  spec.outputs = {out};
  const auto method = load(program);
  std::vector<float> one{1, 1};
  ASSERT_TRUE(method->set_input(0, tensor(one)).ok());
  ASSERT_TRUE(method->set_input(1, tensor(one)).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{4, 4}));
  expect_message(method->execute(), Error::InvalidState, "its memory is reused");
  ASSERT_TRUE(method->set_input(0, tensor(one)).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{6, 6}));
}

TEST(MethodTest, AnOutputMustBeCopiedBeforeItIsAnInput) {
  const auto method = load(bounded_add());
  std::vector<float> one(6, 1);
  const std::vector<EValue> inputs{tensor(one, {2, 3}), tensor(one, {2, 3})};
  ASSERT_TRUE(method->set_inputs(inputs).ok());
  ASSERT_TRUE(method->execute().ok());
  expect_message(method->set_input(0, method->get_output(0)), Error::InvalidArgument,
                 "copy it first");
}

TEST(MethodTest, AFailedRunCanBeFollowedByAnother) {
  // Fails while x has two elements: a + b of different sizes.
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::input({4}).bounded());
  const int one = spec.add(int64_t{1});
  const int counter = spec.add(int64_t{0});
  const int constant =
      spec.add(TensorSpec::constant({4}, program.add_constant(floats({1, 2, 3, 4}))));
  const int out = spec.add(TensorSpec::planned({4}, 0).bounded());
  const int moved = spec.add(TensorSpec::planned({4}, 64));
  spec.kernel("test::add_int", {counter, one, counter});
  spec.instruction(MoveSpec{constant, moved});
  spec.kernel("test::add.out", {x, constant, out, out});
  spec.inputs = {x};
  spec.outputs = {out, counter, moved};
  const auto method = load(program);
  const void* const own_memory = method->get_output(2).tensor().data();
  std::vector<float> two{1, 1};
  std::vector<float> four{1, 1, 1, 1};
  ASSERT_TRUE(method->set_input(0, tensor(two)).ok());
  expect_message(method->execute(), Error::InvalidArgument,
                 "method forward, instruction 2 (test::add.out): float32[2] and float32[4]");
  EXPECT_EQ(method->get_output(1).to_int(), 0) << "scalars are as before the run";
  EXPECT_EQ(method->get_output(2).tensor().data(), own_memory) << "and so are moved handles";

  ASSERT_TRUE(method->set_input(0, tensor(four)).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(method->get_output(1).to_int(), 1);
}

TEST(MethodTest, AnEndlessLoopIsGivenUp) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  spec.instruction(JumpFalseSpec{spec.add(false), 0});
  LoadMethodOptions options;
  options.limits.emplace().instructions = 1000;
  const auto method = load(program, options);
  expect_message(method->execute(), Error::OutOfResources, "1000 instructions without an end");
}

TEST(MethodTest, ABoolTensorIsTrueWhenAllItsElementsAre) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int condition = spec.add(TensorSpec::input({3}).bounded().with_dtype(ScalarType::Bool));
  const int result = spec.add(int64_t{0});
  const int one = spec.add(int64_t{1});
  const int zero = spec.add(int64_t{0});
  spec.instruction(MoveSpec{zero, result});
  spec.instruction(JumpFalseSpec{condition, 3});
  spec.instruction(MoveSpec{one, result});
  spec.inputs = {condition};
  spec.outputs = {result};
  const auto method = load(program);
  const std::pair<std::vector<uint8_t>, int64_t> cases[] = {
      {{1, 1, 1}, 1}, {{1, 0, 1}, 0}, {{0, 0, 0}, 0}, {{2, 255, 1}, 1}, {{}, 1}};
  for (const auto& [elements, expected] : cases) {
    std::vector<uint8_t> copy = elements;
    const Sizes sizes{static_cast<int64_t>(copy.size())};
    ASSERT_TRUE(
        method->set_input(0, EValue(*Tensor::make(ScalarType::Bool, sizes, copy.data()))).ok());
    ASSERT_TRUE(method->execute().ok());
    EXPECT_EQ(method->get_output(0).to_int(), expected);
  }
}

TEST(MethodTest, AMoveToAnInputLastsUntilItIsSetAgain) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int x = spec.add(TensorSpec::planned({2}, 0));
  const int constant = spec.add(TensorSpec::constant({2}, program.add_constant(floats({7, 8}))));
  const int out = spec.add(TensorSpec::planned({2}, 64));
  spec.kernel("test::add.out", {x, x, out, out});
  spec.instruction(MoveSpec{constant, x});
  spec.inputs = {x};
  spec.outputs = {out};
  const auto method = load(program);
  std::vector<float> one{1, 1};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(method->set_input(0, tensor(one)).ok()) << "not into the constant";
    ASSERT_TRUE(method->execute().ok());
    EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{2, 2}));
    EXPECT_EQ(method->execute(), Error::InvalidState);
  }
}

TEST(MethodTest, AnArgumentBeforeItsMoveIsNoCrash) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  const int lost = spec.add(TensorSpec::input({2}));
  const int constant = spec.add(TensorSpec::constant({2}, program.add_constant(floats({7, 8}))));
  const int list = spec.add(TensorListSpec{{{lost}}});
  spec.kernel("test::add.out", {constant, constant, list, list});
  spec.instruction(MoveSpec{constant, lost});
  expect_message(load(program)->execute(), Error::InvalidProgram, "an argument has no memory");
}

TEST(MethodTest, InitialValuesOfNamelessTensorsCanBeRestored) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  TensorSpec state = TensorSpec::planned({2}, 0);
  state.data_index = program.add_initial_value(floats({3, 4}));
  const int value = spec.add(state);
  spec.kernel("test::add.out", {value, value, value, value});
  spec.outputs = {value};
  const auto method = load(program);
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{3, 4}));
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{6, 8}));
  ASSERT_TRUE(method->reset_state().ok());
  EXPECT_EQ(floats_of(method->get_output(0)), (std::vector<float>{3, 4}));
}

TEST(MethodTest, PlannedMemoryIsZeroAndAligned) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  spec.buffer_sizes = {{0, 20, 1 << 20, 100}};
  spec.outputs = {spec.add(TensorSpec::planned({5}, 0, 1)),
                  spec.add(TensorSpec::planned({1 << 18}, 0, 2)),
                  spec.add(TensorSpec::planned({25}, 0, 3))};
  const auto method = load(program);
  for (size_t i = 0; i < 3; ++i) {
    const Tensor& tensor = method->get_output(i).tensor();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    const std::vector<float> values = floats_of(method->get_output(i));
    EXPECT_EQ(values, std::vector<float>(values.size(), 0));
  }
}

TEST(MethodTest, MemoryThatCannotBeHadIsAnError) {
  ProgramSpec program;
  program.add_method("forward").buffer_sizes = {{0, int64_t{1} << 60}};
  auto loaded = value_of(Program::load(write_program(program)));
  LoadMethodOptions options;
  options.separate_tensors = false;  // there is none
  const auto method = loaded->load_method("forward", options);
  ASSERT_FALSE(method.ok());
  expect_message(method.error(), Error::MemoryAllocationFailed, "no 1152921504606846976 bytes");
}

TEST(MethodTest, DeviceMemoryNeedsAnAllocator) {
  ProgramSpec program;
  MethodSpec& spec = program.add_method("forward");
  spec.buffer_devices = {{1, 1, 0}};
  auto loaded = value_of(Program::load(write_program(program)));
  EXPECT_EQ(describe(loaded->method_meta("forward")->pools[0].device), "cuda:0");
  LoadMethodOptions options;
  options.separate_tensors = false;  // there is none
  const auto method = loaded->load_method("forward", options);
  ASSERT_FALSE(method.ok());
  expect_message(method.error(), Error::NotFound, "no allocator for cuda:0 memory");
  ASSERT_TRUE(options.devices.add("cuda:0=cuda:3").ok());
  const auto elsewhere = loaded->load_method("forward", options);
  ASSERT_FALSE(elsewhere.ok());
  expect_message(elsewhere.error(), Error::NotFound, "no allocator for cuda:3 memory");
}

}  // namespace
}  // namespace pteron
