// One Program, many threads.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
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

constexpr size_t kThreads = 4;
constexpr int kRuns = 200;

void in_threads(const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// state_<i> += x, for four states, and out = 2 x by a delegate.
std::shared_ptr<const Program> load_program() {
  ProgramSpec program;
  const auto segment = static_cast<uint32_t>(program.add_segment(text("2")));
  program.add_named("blob", Bytes(1 << 20, 7));
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({2}));
  const int out = method.add(TensorSpec::planned({2}, 0));
  method.delegates = {{kScaleBackend, true, 1, segment, {}}};
  method.instruction(DelegateCallSpec{0, {{x, out}}});
  for (int i = 0; i < 4; ++i) {
    const int state =
        method.add(TensorSpec::mutable_buffer({2}, 64 * (i + 1), "state_" + std::to_string(i)));
    method.kernel("test::add.out", {state, x, state, state});
  }
  method.inputs = {x};
  method.outputs = {out};
  auto loaded = Program::load(write_program(program));
  EXPECT_TRUE(loaded.ok()) << loaded.error().message();
  return *loaded;
}

bool run(Method& method, float value) {
  std::vector<float> data{value, -value};
  const std::vector<int64_t> sizes{2};
  if (!method.set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, data.data()))).ok() ||
      !method.execute().ok()) {
    return false;
  }
  const float* const out = method.get_output(0).tensor().data_as<float>();
  return out[0] == 2 * value && out[1] == -2 * value;
}

TEST(ThreadsTest, EachThreadLoadsAndRunsItsOwnMethod) {
  const auto program = load_program();
  std::atomic<int> wrong{0};
  in_threads([&](size_t thread) {
    for (int load = 0; load < 5; ++load) {
      auto method = program->load_method("forward");
      for (int i = 0; i < kRuns; ++i) {
        if (!run(**method, static_cast<float>(i + 1000 * thread))) ++wrong;
      }
      const Tensor state = *(*method)->session().buffer("state_3");
      if (state.data_as<float>()[0] != kRuns * (kRuns - 1) / 2.f + 1000.f * thread * kRuns) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadsTest, MethodsAreLoadedIntoOneSessionAtOnce) {
  const auto program = load_program();
  LoadMethodOptions options;
  options.session = program->new_session();
  std::vector<std::unique_ptr<Method>> methods(kThreads);
  in_threads([&](size_t thread) {
    methods[thread] = std::move(*program->load_method("forward", options));
  });
  EXPECT_EQ(options.session->buffer_names().size(), 4u);
  for (auto& method : methods) EXPECT_TRUE(run(*method, 1));
  EXPECT_EQ(options.session->buffer("state_0")->data_as<float>()[0], kThreads);
}

TEST(ThreadsTest, NamedDataIsVerifiedOnceForAll) {
  const auto program = load_program();
  std::atomic<int> good{0};
  in_threads([&](size_t) {
    for (int i = 0; i < 100; ++i) {
      const auto bytes = program->named_data().get_verified("blob");
      if (bytes.ok() && bytes->size() == 1 << 20) ++good;
      if (program->named_data().get_verified("none").ok()) --good;
    }
  });
  EXPECT_EQ(good, static_cast<int>(kThreads) * 100);
}

TEST(ThreadsTest, MetadataIsReadFromEverywhere) {
  const auto program = load_program();
  std::atomic<int> good{0};
  in_threads([&](size_t) {
    for (int i = 0; i < 50; ++i) {
      if (program->method_meta("forward")->mutable_buffers.size() == 4) ++good;
    }
  });
  EXPECT_EQ(good, static_cast<int>(kThreads) * 50);
}

// What another thread does while the method runs, or a callback on the same thread.
struct Intruder final : EventTracer {
  uint64_t begin(std::string_view category, std::string_view) override {
    if (category == "method" && body) body();
    return 0;
  }
  void end(uint64_t) override {}
  std::function<void()> body;
};

TEST(ThreadsTest, ARunningMethodIsLeftAlone) {
  Intruder intruder;
  LoadMethodOptions options;
  options.tracer = &intruder;
  auto method = value_of(load_program()->load_method("forward", options));
  std::vector<float> data{1, 2};
  const int64_t sizes[] = {2};
  const EValue input(*Tensor::make(ScalarType::Float, sizes, data.data()));
  std::vector<Error> errors;
  const auto intrude = [&] {
    errors.push_back(method->execute());
    errors.push_back(method->set_input(0, input));
    errors.push_back(method->set_inputs({&input, 1}));
    errors.push_back(method->set_output_data(0, data.data(), 8));
    errors.push_back(method->reset_state());
  };
  ASSERT_TRUE(method->set_input(0, input).ok());
  intruder.body = intrude;
  ASSERT_TRUE(method->execute().ok());
  intruder.body = [&] { std::thread(intrude).join(); };
  ASSERT_TRUE(method->execute().ok());
  ASSERT_EQ(errors.size(), 10u);
  for (const Error& error : errors) {
    EXPECT_EQ(error, Error::InvalidState);
    EXPECT_NE(error.message().find("it is running"), std::string::npos) << error.message();
  }
  intruder.body = nullptr;
  EXPECT_TRUE(run(*method, 3)) << "and afterwards it works as before";
}

}  // namespace
}  // namespace pteron
