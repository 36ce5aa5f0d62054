// How a method makes, calls and destroys its delegates.
#include <gtest/gtest.h>

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
using Events = std::vector<std::string>;

// x, doubled by each of `names` in turn; `failing` fails at `where`.
ProgramSpec scaled(const std::vector<std::string>& names, const std::string& failing = "",
                   const std::string& where = "") {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({2}));
  const int out = method.add(TensorSpec::planned({2}, 0));
  method.inputs = {x};
  method.outputs = {out};
  for (const std::string& name : names) {
    const auto segment = static_cast<uint32_t>(program.add_segment(text("2")));
    DelegateSpec delegate{kScaleBackend, true, 1, segment, {{"name", text(name)}}};
    if (name == failing) delegate.compile_specs.push_back({"fail", text(where)});
    method.delegates->push_back(delegate);
    const auto index = static_cast<int32_t>(method.delegates->size()) - 1;
    method.instruction(DelegateCallSpec{index, {{index == 0 ? x : out, out}}});
  }
  return program;
}

class DelegatesTest : public ::testing::Test {
 protected:
  DelegatesTest() {
    scale_backend_log().clear();
    scale_backend_log().recording = true;
  }
  ~DelegatesTest() override {
    scale_backend_log().recording = false;
    EXPECT_EQ(scale_backend_log().alive, 0);
  }

  Result<std::unique_ptr<Method>> load(const ProgramSpec& spec,
                                       const LoadMethodOptions& options = {}) {
    auto program = Program::load(write_program(spec));
    EXPECT_TRUE(program.ok()) << program.error().message();
    return (*program)->load_method("forward", options);
  }

  std::vector<float> in_{1, 2};
  const std::vector<int64_t> two_{2};
  EValue x_ = EValue(*Tensor::make(ScalarType::Float, two_, in_.data()));
};

TEST_F(DelegatesTest, AreMadeInOrderAndDestroyedInReverse) {
  {
    auto method = value_of(load(scaled({"a", "b", "c"})));
    ASSERT_TRUE(method->set_input(0, x_).ok());
    ASSERT_TRUE(method->execute().ok());
    EXPECT_EQ(method->get_output(0).tensor().data_as<float>()[1], 16);
  }
  EXPECT_EQ(scale_backend_log().events,
            (Events{"init a", "init b", "init c", "destroy c", "destroy b", "destroy a"}));
}

TEST_F(DelegatesTest, WriteAPlannedOutputWhereTheCallerWantsIt) {
  auto method = value_of(load(scaled({"a", "b"})));
  ASSERT_TRUE(method->set_input(0, x_).ok());
  std::vector<float> first(2), second(2);
  for (std::vector<float>* const out : {&first, &second}) {
    ASSERT_TRUE(method->set_output_data(0, out->data(), 8).ok());
    ASSERT_TRUE(method->execute().ok());
    EXPECT_EQ(method->get_output(0).tensor().data(), out->data());
    EXPECT_EQ(*out, (std::vector<float>{4, 8}));
    out->assign(2, 0);
  }
  EXPECT_EQ(first, (std::vector<float>{0, 0}));
}

TEST_F(DelegatesTest, LeaveAPlannedOutputWhereOthersUseItsMemory) {
  const auto is_refused = [&](const ProgramSpec& program) {
    auto method = value_of(load(program));
    std::vector<float> memory(2);
    EXPECT_EQ(method->set_output_data(0, memory.data(), 8), Error::InvalidState);
  };
  ProgramSpec shared = scaled({"a"});  // another tensor lies there at another time
  shared.methods->front().add(TensorSpec::planned({1}, 4));
  is_refused(shared);
  ProgramSpec read = scaled({"a"});  // a kernel reads it
  MethodSpec& method = read.methods->front();
  const int out = method.outputs->front(), y = method.add(TensorSpec::planned({2}, 64));
  method.kernel("test::add.out", {out, out, y, y});
  is_refused(read);
}

TEST_F(DelegatesTest, AFailedLoadDestroysWhatWasMade) {
  const auto method = load(scaled({"a", "b", "c", "d"}, "c", "init"));
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::DelegateInvalidCompatibility);
  EXPECT_EQ(method.error().message(),
            "method forward: delegate 2 (ScaleBackend): init of c failed as told");
  EXPECT_EQ(scale_backend_log().events, (Events{"init a", "init b", "destroy b", "destroy a"}));
}

TEST_F(DelegatesTest, AFailedCallNamesTheDelegate) {
  auto method = value_of(load(scaled({"a", "b"}, "b", "execute")));
  ASSERT_TRUE(method->set_input(0, x_).ok());
  for (int i = 0; i < 2; ++i) {
    const Error error = method->execute();
    EXPECT_EQ(error.message(),
              "method forward, instruction 1 (ScaleBackend): delegate b failed as told");
  }
}

TEST_F(DelegatesTest, NothingIsMadeWhenAKernelIsMissing) {
  ProgramSpec program = scaled({"a"});
  program.methods->front().kernel("no::such.out", {0});
  const auto method = load(program);
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::OperatorMissing);
  EXPECT_EQ(scale_backend_log().events, Events{});
}

TEST_F(DelegatesTest, OptionsGoToTheBackendTheyAreFor) {
  LoadMethodOptions options;
  options.backend_options[kScaleBackend] = {{"threads", int64_t{2}}, {"fast", true}};
  ASSERT_TRUE(load(scaled({"a"}), options).ok());
  EXPECT_EQ(scale_backend_log().options, (std::vector<std::string>{"threads", "fast"}));

  options.backend_options["OtherBackend"] = {};
  const auto method = load(scaled({"a"}), options);
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::InvalidArgument);
  EXPECT_NE(method.error().message().find("backend OtherBackend; the method's backends are: "
                                          "ScaleBackend"),
            std::string::npos)
      << method.error().message();
}

TEST_F(DelegatesTest, OfOneMethodShareWhatTheirBackendWants) {
  auto first = load(scaled({"a", "b"}));
  auto second = load(scaled({"c"}));
  ASSERT_TRUE(first.ok() && second.ok());
  const auto& states = scale_backend_log().shared_states;
  ASSERT_EQ(states.size(), 3u);
  EXPECT_NE(states[0], nullptr);
  EXPECT_EQ(states[0], states[1]);
  EXPECT_NE(states[0], states[2]);
}

TEST_F(DelegatesTest, DamagedProcessedBytesNeverReachTheBackend) {
  Bytes bytes = write_program(scaled({"a"}));
  bytes.back() ^= 1;  // the only byte of the only segment
  auto program = value_of(Program::load(bytes));
  const auto method = program->load_method("forward");
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::InvalidProgram);
  EXPECT_EQ(scale_backend_log().events, Events{});
}

TEST_F(DelegatesTest, OnlyAllowedBackendsAreLoaded) {
  ProgramSpec spec = scaled({"a"});
  spec.methods->front().delegates->push_back({"OtherBackend", true, 1, 0, {}});
  // That nothing of the delegates is looked at: the bytes of one are damaged, of another missing.
  spec.methods->front().delegates->push_back({"ThirdBackend", false, 7, 9, {}});
  Bytes bytes = write_program(spec);
  bytes.back() ^= 1;
  const auto refusal = [&](std::vector<std::string> allowed, Verification verification) {
    LoadOptions options;
    options.verification = verification;
    options.allowed_backends = std::move(allowed);
    const auto program = Program::load(bytes, nullptr, options);
    EXPECT_FALSE(program.ok());
    EXPECT_EQ(program.error(), Error::NotSupported);
    return program.error().message();
  };
  for (const Verification verification : {Verification::Minimal, Verification::Full}) {
    EXPECT_NE(refusal({}, verification)
                  .find("it has delegates of these backends: OtherBackend, ScaleBackend, "
                        "ThirdBackend; allowed are: none"),
              std::string::npos);
    EXPECT_NE(refusal({kScaleBackend, "OtherBackend"}, verification)
                  .find("allowed are: ScaleBackend, OtherBackend"),
              std::string::npos);
  }
  EXPECT_EQ(scale_backend_log().events, Events{});

  LoadOptions options;
  options.allowed_backends = {kScaleBackend};
  EXPECT_TRUE(Program::load(write_program(scaled({"a"})), nullptr, options).ok());
  options.allowed_backends->clear();
  EXPECT_TRUE(Program::load(write_program(scaled({})), nullptr, options).ok());
}

struct Recorder final : EventTracer {
  uint64_t begin(std::string_view category, std::string_view name) override {
    events.push_back(std::string(category) + " " + std::string(name));
    return ++open;
  }
  void end(uint64_t event) override {
    EXPECT_EQ(event, open) << "events end in reverse order";
    --open;
  }
  Events events;
  uint64_t open = 0;
};

TEST_F(DelegatesTest, TheTracerHearsOfLoadAndRun) {
  Recorder tracer;
  LoadMethodOptions options;
  options.tracer = &tracer;
  ProgramSpec program = scaled({"a"});
  program.methods->front().kernel("test::add.out", {1, 1, 1, 1});
  auto method = value_of(load(program, options));
  ASSERT_TRUE(method->set_input(0, x_).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(tracer.events, (Events{"load forward", "init ScaleBackend", "method forward",
                                   "delegate ScaleBackend", "kernel test::add.out"}));
  EXPECT_EQ(tracer.open, 0u);
}

}  // namespace
}  // namespace pteron
