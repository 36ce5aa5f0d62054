// Programs that are well-formed and mean harm, and inputs that do: none reaches memory that is not
// its own.
#include <gtest/gtest.h>

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

Result<std::unique_ptr<Method>> try_load(const ProgramSpec& spec) {
  auto program = Program::load(write_program(spec));
  if (!program.ok()) return program.take_error();
  return (*program)->load_method("forward");
}

std::unique_ptr<Method> load(const ProgramSpec& spec) {
  auto method = try_load(spec);
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

}  // namespace
}  // namespace pteron
