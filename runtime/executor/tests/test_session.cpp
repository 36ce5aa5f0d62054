// State that outlives a run, and who sees it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

// Two methods over one cache: "write" stores x in it and returns it, "read" adds it to itself. They
// plan it in different places, and "write" has an alias of its second half.
ProgramSpec cache_program() {
  ProgramSpec program;
  MethodSpec& write = program.add_method("write");
  const int x = write.add(TensorSpec::planned({4}, 512));
  const int cache = write.add(TensorSpec::mutable_buffer({4}, 0, "cache"));
  const int alias = write.add(TensorSpec::planned({4}, 0));  // what an in-place operator returns
  const int half = write.add(TensorSpec::planned({2}, 8));
  write.kernel("test::copy_", {cache, x, alias});
  write.inputs = {x};
  write.outputs = {alias, half};

  MethodSpec& read = program.add_method("read");
  const int same = read.add(TensorSpec::mutable_buffer({4}, 256, "cache"));
  const int out = read.add(TensorSpec::planned({4}, 0));
  read.add(TensorSpec::mutable_buffer({1}, 128, "other"));
  read.kernel("test::add.out", {same, same, out, out});
  read.outputs = {out};
  return program;
}

std::shared_ptr<const Program> load(const ProgramSpec& spec) {
  auto program = Program::load(write_program(spec));
  EXPECT_TRUE(program.ok()) << program.error().message();
  return *program;
}

std::unique_ptr<Method> load_into(const std::shared_ptr<const Program>& program,
                                  const std::string& name, std::shared_ptr<Session> session) {
  LoadMethodOptions options;
  options.session = std::move(session);
  auto method = program->load_method(name, options);
  EXPECT_TRUE(method.ok()) << method.error().message();
  return std::move(*method);
}

std::vector<float> floats_of(const Tensor& tensor) {
  const float* const data = tensor.data_as<const float>();
  return {data, data + tensor.numel()};
}

void write(Method& method, std::vector<float> values) {
  const std::vector<int64_t> sizes{4};
  ASSERT_TRUE(
      method.set_input(0, EValue(*Tensor::make(ScalarType::Float, sizes, values.data()))).ok());
  const Error error = method.execute();
  ASSERT_TRUE(error.ok()) << error.message();
}

std::vector<float> read(Method& method) {
  EXPECT_TRUE(method.execute().ok());
  return floats_of(method.get_output(0).tensor());
}

TEST(SessionTest, MethodsOfASessionShareStateByName) {
  const auto program = load(cache_program());
  const auto session = program->new_session();
  const auto writer = load_into(program, "write", session);
  const auto reader = load_into(program, "read", session);
  EXPECT_EQ(read(*reader), (std::vector<float>{0, 0, 0, 0})) << "zeros at first";
  write(*writer, {1, 2, 3, 4});
  EXPECT_EQ(read(*reader), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(floats_of(writer->get_output(0).tensor()), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(floats_of(writer->get_output(1).tensor()), (std::vector<float>{3, 4}));
  EXPECT_EQ(&writer->session(), session.get());
}

TEST(SessionTest, TwoSessionsSeeNothingOfEachOther) {
  const auto program = load(cache_program());
  const auto first = program->new_session();
  const auto second = program->new_session();
  const auto writer = load_into(program, "write", first);
  const auto reader = load_into(program, "read", second);
  const auto alone = load_into(program, "read", nullptr);
  write(*writer, {1, 2, 3, 4});
  EXPECT_EQ(read(*reader), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(read(*alone), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_NE(&alone->session(), second.get());
}

TEST(SessionTest, StateOutlivesTheMethodThatWroteIt) {
  const auto program = load(cache_program());
  const auto session = program->new_session();
  write(*load_into(program, "write", session), {1, 2, 3, 4});
  EXPECT_EQ(read(*load_into(program, "read", session)), (std::vector<float>{2, 4, 6, 8}));
}

TEST(SessionTest, BuffersAreListedAndReadable) {
  const auto program = load(cache_program());
  const auto session = program->new_session();
  EXPECT_TRUE(session->buffer_names().empty());
  const auto writer = load_into(program, "write", session);
  const auto reader = load_into(program, "read", session);
  EXPECT_EQ(session->buffer_names(), (std::vector<std::string>{"cache", "other"}));
  write(*writer, {1, 2, 3, 4});
  EXPECT_EQ(floats_of(*session->buffer("cache")), (std::vector<float>{1, 2, 3, 4}));
  const auto missing = session->buffer("none");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("cache, other"), std::string::npos);
}

TEST(SessionTest, BuffersAreWrittenFromOutside) {
  const auto program = load(cache_program());
  const auto session = program->new_session();
  const auto reader = load_into(program, "read", session);
  std::vector<float> values{1, 2, 3, 4};
  const auto tensor = [&](ScalarType dtype, std::vector<int64_t> sizes) {
    return *Tensor::make(dtype, sizes, values.data());
  };
  ASSERT_TRUE(session->set_buffer("cache", tensor(ScalarType::Float, {4})).ok());
  EXPECT_EQ(read(*reader), (std::vector<float>{2, 4, 6, 8}));
  for (const Tensor& wrong : {tensor(ScalarType::Int, {4}), tensor(ScalarType::Float, {2, 2}),
                              tensor(ScalarType::Float, {3})}) {
    const Error error = session->set_buffer("cache", wrong);
    EXPECT_EQ(error.code(), Error::InvalidArgument);
    EXPECT_NE(error.message().find("cache is float32[4], dense; found"), std::string::npos)
        << error.message();
  }
  EXPECT_EQ(session->set_buffer("x", tensor(ScalarType::Float, {4})).code(), Error::NotFound);
}

TEST(SessionTest, ACopyGoesOnByItself) {
  const auto program = load(cache_program());
  const auto session = program->new_session();
  const auto writer = load_into(program, "write", session);
  write(*writer, {1, 2, 3, 4});
  auto copy = session->copy();
  ASSERT_TRUE(copy.ok()) << copy.error().message();
  write(*writer, {5, 6, 7, 8});
  const auto reader = load_into(program, "read", *copy);
  EXPECT_EQ(read(*reader), (std::vector<float>{2, 4, 6, 8}));
  ASSERT_TRUE((*copy)->reset().ok());
  EXPECT_EQ(read(*reader), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(floats_of(*session->buffer("cache")), (std::vector<float>{5, 6, 7, 8}));
}

TEST(SessionTest, ResetGivesInitialValuesBack) {
  ProgramSpec spec = cache_program();
  const uint32_t initial = spec.add_initial_value(floats({9, 8, 7, 6}));
  (*spec.methods)[0].tensor(1).data_index = initial;
  (*spec.methods)[1].tensor(0).data_index = initial;
  const auto program = load(spec);
  const auto session = program->new_session();
  const auto writer = load_into(program, "write", session);
  const auto reader = load_into(program, "read", session);
  EXPECT_EQ(read(*reader), (std::vector<float>{18, 16, 14, 12}));
  write(*writer, {1, 2, 3, 4});
  ASSERT_TRUE(session->reset().ok());
  EXPECT_EQ(read(*reader), (std::vector<float>{18, 16, 14, 12}));
  write(*writer, {1, 2, 3, 4});
  ASSERT_TRUE(writer->reset_state().ok());
  EXPECT_EQ(read(*reader), (std::vector<float>{18, 16, 14, 12}));
}

TEST(SessionTest, ALateMethodFindsTheStateAsItIs) {
  ProgramSpec spec = cache_program();
  const uint32_t initial = spec.add_initial_value(floats({9, 8, 7, 6}));
  (*spec.methods)[0].tensor(1).data_index = initial;
  (*spec.methods)[1].tensor(0).data_index = initial;
  const auto program = load(spec);
  const auto session = program->new_session();
  write(*load_into(program, "write", session), {1, 2, 3, 4});
  EXPECT_EQ(read(*load_into(program, "read", session)), (std::vector<float>{2, 4, 6, 8}))
      << "loading must not write initial values again";
}

TEST(SessionTest, MethodsMustAgreeOnABuffer) {
  struct Case {
    const char* message;
    void (*change)(ProgramSpec&);
  };
  const Case cases[] = {
      {"is float32[4] on cpu in one method of the session and float32[2, 2] on cpu",
       [](ProgramSpec& p) {
         (*p.methods)[1].tensor(0) = TensorSpec::mutable_buffer({2, 2}, 256, "cache");
       }},
      {"int32[4]", [](ProgramSpec& p) { (*p.methods)[1].tensor(0).with_dtype(ScalarType::Int); }},
      {"begins with one value",
       [](ProgramSpec& p) {
         (*p.methods)[1].tensor(0).data_index = p.add_initial_value(floats({1, 0, 0, 0}));
       }},
  };
  for (const Case& c : cases) {
    ProgramSpec spec = cache_program();
    c.change(spec);
    const auto program = load(spec);
    LoadMethodOptions options;
    options.session = program->new_session();
    ASSERT_TRUE(program->load_method("write", options).ok());
    const auto method = program->load_method("read", options);
    ASSERT_FALSE(method.ok());
    EXPECT_EQ(method.error(), Error::InvalidProgram);
    EXPECT_NE(method.error().message().find(c.message), std::string::npos)
        << method.error().message();
  }
}

TEST(SessionTest, OfAnotherProgramIsRefused) {
  const auto program = load(cache_program());
  const auto other = load(cache_program());
  LoadMethodOptions options;
  options.session = other->new_session();
  const auto method = program->load_method("write", options);
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::InvalidArgument);
  EXPECT_NE(method.error().message().find("another program"), std::string::npos);
}

}  // namespace
}  // namespace pteron
