// Method::prepare(): who is asked, on what, and what a caller sees of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
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
using Events = std::vector<std::string>;

// state = state + x, then y = 2 (2 state), by delegates "a" from the buffer and "b" from "between";
// y is the caller's memory. `prepare` is what the two are told.
ProgramSpec counter(const std::string& a, const std::string& b) {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({2}));
  const int state = method.add(TensorSpec::mutable_buffer({2}, 0, "state"));
  const int sum = method.add(TensorSpec::planned({2}, 64));
  const int alias = method.add(TensorSpec::planned({2}, 0));
  const int between = method.add(TensorSpec::planned({2}, 128));
  const int y = method.add(TensorSpec::input({2}));
  method.inputs = {x};
  method.outputs = {y};
  method.kernel("test::add.out", {state, x, sum, sum});
  method.kernel("test::copy_", {state, sum, alias});
  const auto segment = static_cast<uint32_t>(program.add_segment(text("2")));
  for (const auto& [name, told] : {std::pair("a", a), std::pair("b", b)}) {
    DelegateSpec delegate{kScaleBackend, true, 1, segment, {{"name", text(name)}}};
    if (!told.empty()) delegate.compile_specs.push_back({"prepare", text(told)});
    method.delegates->push_back(delegate);
  }
  method.instruction(DelegateCallSpec{0, {{state, between}}});
  method.instruction(DelegateCallSpec{1, {{between, y}}});
  return program;
}

class MethodPreparation : public ::testing::Test {
 protected:
  MethodPreparation() {
    scale_backend_log().clear();
    scale_backend_log().recording = true;
  }
  ~MethodPreparation() override { scale_backend_log().recording = false; }

  void load(const ProgramSpec& spec) {
    auto program = value_of(Program::load(write_program(spec)));
    auto method = value_of(program->load_method("forward"));
    method_ = std::move(method);
    const int64_t sizes[] = {2};
    ASSERT_TRUE(method_->set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, x_))).ok());
    ASSERT_TRUE(method_->set_output_data(0, y_, sizeof y_).ok());
  }

  static Events prepared() {
    Events events = scale_backend_log().events;
    events.erase(std::remove_if(events.begin(), events.end(),
                                [](const auto& event) { return event.rfind("prepare", 0) != 0; }),
                 events.end());
    return events;
  }

  float run() {
    const Error error = method_->execute();
    EXPECT_TRUE(error.ok()) << error.message();
    return y_[1];
  }

  float x_[2] = {1, 10};
  float y_[2] = {0, 0};
  std::unique_ptr<Method> method_;
};

TEST_F(MethodPreparation, IsNothingWhereNoDelegateCan) {
  load(counter("", ""));
  const Error error = method_->prepare();
  EXPECT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(y_[1], 0) << "it has run";
  EXPECT_EQ(run(), 40);
}

TEST_F(MethodPreparation, AsksThoseThatCanAndSaysWhatStaysWhereItIs) {
  load(counter("yes", "yes"));
  const Error error = method_->prepare();
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(prepared(), (Events{"prepare fixed fixed a", "prepare fixed free b"}));
}

TEST_F(MethodPreparation, LeavesTheStateAsItWas) {
  load(counter("yes", ""));
  EXPECT_EQ(run(), 40);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(method_->prepare().ok());
  EXPECT_EQ(run(), 80);
  ASSERT_TRUE(method_->reset_state().ok());
  EXPECT_EQ(run(), 40);
  EXPECT_EQ(prepared().size(), 2u) << "asked by execute(), too";
}

TEST_F(MethodPreparation, SaysAllThatCannotBePreparedAndRunsOn) {
  load(counter("fail", "fail"));
  EXPECT_EQ(run(), 40);
  const Error error = method_->prepare();
  EXPECT_EQ(error, Error::NotSupported);
  EXPECT_EQ(error.message(),
            "method forward runs, but is not prepared in full: 2 errors\n"
            "  instruction 2 (ScaleBackend): a cannot, as told\n"
            "  instruction 3 (ScaleBackend): b cannot, as told");
  EXPECT_EQ(run(), 80);
}

TEST_F(MethodPreparation, NeedsWhatARunNeeds) {
  auto program = value_of(Program::load(write_program(counter("yes", "yes"))));
  auto method = value_of(program->load_method("forward"));
  const Error error = method->prepare();
  EXPECT_EQ(error, Error::InvalidState);
  EXPECT_NE(error.message().find("input 0 (float32[2]) is not set"), std::string::npos)
      << error.message();
}

TEST_F(MethodPreparation, AFailedRunIsTheErrorAndLeavesTheState) {
  ProgramSpec spec = counter("yes", "");
  spec.methods->front().delegates->back().compile_specs.push_back({"fail", text("execute")});
  load(spec);
  const Error error = method_->prepare();
  EXPECT_EQ(error, Error::Internal);
  EXPECT_NE(error.message().find("delegate b failed as told"), std::string::npos)
      << error.message();
  EXPECT_EQ(method_->session().buffer("state")->data_as<float>()[1], 0);
}

}  // namespace
}  // namespace pteron
