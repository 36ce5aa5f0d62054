// A module over the program of everything_program.h and over one of two methods with a state.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pteron/runtime/executor/tests/allocation_meter.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"
#include "pteron/runtime/module.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

// "forward": sum = x + y, and the same added to "total", which "read" returns doubled.
std::string write_sums(const std::string& name) {
  ProgramSpec program;
  MethodSpec& forward = program.add_method("forward");
  const int x = forward.add(TensorSpec::input({2}));
  const int y = forward.add(TensorSpec::input({2}));
  const int sum = forward.add(TensorSpec::input({2}));
  const int total = forward.add(TensorSpec::mutable_buffer({2}, 0, "total"));
  forward.kernel("test::add.out", {x, y, sum, sum});
  forward.kernel("test::add.out", {total, sum, total, total});
  forward.inputs = {x, y};
  forward.input_names = {{"x", "y"}};
  forward.outputs = {sum};
  forward.output_names = {{"sum"}};
  MethodSpec& read = program.add_method("read");
  const int same = read.add(TensorSpec::mutable_buffer({2}, 64, "total"));
  const int out = read.add(TensorSpec::planned({2}, 0));
  read.kernel("test::add.out", {same, same, out, out});
  read.outputs = {out};
  return write_file(name + ".pte", write_program(program));
}

TensorPtr tensor(std::vector<float> elements) { return *make_tensor_ptr(std::move(elements)); }

std::vector<float> elements_of(const Result<Module::Outputs>& outputs, Module::Key key = 0) {
  if (!outputs.ok()) return ADD_FAILURE() << outputs.error().message(), std::vector<float>();
  const Result<Tensor> found = outputs->tensor(key);
  if (!found.ok()) return ADD_FAILURE() << found.error().message(), std::vector<float>();
  return *to_vector<float>(*found);
}

using Floats = std::vector<float>;

TEST(ModuleTest, InputsInOrderOrByName) {
  Module module(write_sums("order"));
  const TensorPtr x = tensor({1, 2}), y = tensor({10, 20});
  EXPECT_EQ(elements_of(module.forward({x, y})), (Floats{11, 22}));
  EXPECT_EQ(elements_of(module.forward({{"y", x}, {"x", x}}), "sum"), (Floats{2, 4}));
  EXPECT_EQ(elements_of(module.execute("forward", std::vector<EValue>{x, *y})), (Floats{11, 22}));
  EXPECT_EQ(elements_of(module.execute("read")), (Floats{48, 96})) << "methods share their state";
  ASSERT_TRUE(module.reset_state().ok());
  EXPECT_EQ(elements_of(module.execute("read")), (Floats{0, 0}));
}

TEST(ModuleTest, InputsAndOutputsThatAreSet) {
  Module module(write_sums("set"));
  const TensorPtr x = tensor({1, 2}), mine = tensor({0, 0});
  ASSERT_TRUE(module.set_input(x, 0).ok());
  ASSERT_TRUE(module.set_input("forward", x, "y").ok());
  ASSERT_TRUE(module.set_output(*mine, "sum").ok());
  ASSERT_TRUE(module.prepare().ok());
  ASSERT_TRUE(module.forward().ok());
  EXPECT_EQ(*to_vector<float>(*mine), (Floats{2, 4}));
  ASSERT_TRUE(module.set_inputs({x, tensor({5, 5})}).ok());
}

TEST(ModuleTest, LoadsWhatIsNeeded) {
  Module module(write_sums("lazy"));
  EXPECT_FALSE(module.is_loaded());
  EXPECT_EQ(*module.method_names(), (std::vector<std::string>{"forward", "read"}));
  EXPECT_TRUE(module.is_loaded());
  EXPECT_EQ(module.method_meta("forward")->inputs[1].name, "y");
  EXPECT_FALSE(module.is_method_loaded("forward"));
  ASSERT_TRUE(module.load_method("forward").ok());
  EXPECT_TRUE(module.is_method_loaded("forward"));
  ASSERT_TRUE(module.forward({tensor({1, 1}), tensor({1, 1})}).ok());
  EXPECT_TRUE(module.unload_method("forward"));
  EXPECT_FALSE(module.unload_method("forward"));
  EXPECT_EQ(elements_of(module.execute("read")), (Floats{4, 4})) << "the state stays";
}

TEST(ModuleTest, OthersShareTheProgramAndNotTheState) {
  Module module(write_sums("shared"));
  Module other(*module.program());
  ASSERT_TRUE(module.forward({tensor({1, 1}), tensor({1, 1})}).ok());
  EXPECT_EQ(elements_of(other.execute("read")), (Floats{0, 0}));
  Module moved = std::move(module);
  EXPECT_EQ(elements_of(moved.execute("read")), (Floats{4, 4}));
}

TEST(ModuleTest, DataFilesScalarsAndBackendOptions) {
  const auto everything = EverythingProgram::make();
  Module::Options options;
  options.load.data_paths = {write_file("all.ptd", write_tensor_data(everything.data))};
  options.load_method.backend_options[kScaleBackend] = {{"anything", true}};
  scale_backend_log().clear();
  scale_backend_log().recording = true;
  Module module(write_file("all.pte", write_program(everything.program)), options);
  const TensorPtr x = tensor({1, 1, 1, 1}), y = tensor({1, 2, 3});
  // What a program was specialised to need not be given by name.
  const auto outputs = module.forward({{"x", x}, {"y", y}, {"n", EValue(int64_t{3})}});
  EXPECT_EQ(elements_of(outputs, "y_out"), (Floats{2, 4, 6}));
  EXPECT_EQ(elements_of(outputs, "total"), (Floats{28}));
  EXPECT_EQ(outputs->get("half")->to_double(), 0.5);
  EXPECT_EQ(outputs->tensor("half").error(), Error::InvalidType);
  EXPECT_EQ(scale_backend_log().options, (std::vector<std::string>{"anything"}));
  EXPECT_TRUE(module.execute("get_length").ok()) << "which has no such backend";
}

TEST(ModuleTest, SaysEverythingThatIsWrong) {
  Module none("/no/such/file.pte");
  EXPECT_EQ(none.forward().error(), Error::NotFound);
  EXPECT_EQ(none.load(), Error::NotFound);

  Module module(write_sums("wrong"));
  const TensorPtr x = tensor({1, 2});
  const auto expect = [](const Error& error, Error::Code code, const char* text) {
    EXPECT_EQ(error, code);
    EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
  };
  expect(module.execute("backward").error(), Error::NotFound, "forward, read");
  expect(module.forward(x).error(), Error::InvalidArgument, "1 inputs were given, it takes 2");
  expect(module.forward().error(), Error::InvalidState, "is not set");
  expect(module.set_input(x, "z"), Error::NotFound,
         "there is no input \"z\"; there are x (0), y (1)");
  expect(module.set_input(x, 2), Error::NotFound, "there is no input 2; there are x (0), y (1)");
  expect(module.set_output(*x, ""), Error::NotFound, "there are sum (0)");
  const Error all = module.set_inputs({{"x", x}, {"x", x}, {"z", x}});
  expect(all, Error::InvalidArgument, "input x is given twice");
  expect(all, Error::InvalidArgument, "there is no input \"z\"");
  expect(all, Error::InvalidArgument, "input y (float32[2]) is not given");
  EXPECT_EQ(module.execute("read")->tensor("out").error(), Error::NotFound);
  expect(module.forward({TensorPtr(), x}).error(), Error::InvalidType, "input 0 (x): it is None");

  Module::Options options;
  options.load_method.backend_options["Scale"] = {};
  Module unused(write_sums("unused"), options);
  expect(unused.load(), Error::InvalidArgument, "options for backend Scale, which no method uses");
}

TEST(ModuleTest, RunsAllocateNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has an operator new of its own, which is not metered";
#endif
  Module module(write_sums("allocations"));
  const TensorPtr x = tensor({1, 2}), y = tensor({10, 20});
  for (const bool warm : {false, true}) {
    const AllocationMeter meter;
    ASSERT_TRUE(module.forward({x, y}).ok());
    ASSERT_TRUE(module.forward({{"x", x}, {"y", y}}).ok());
    EXPECT_EQ(meter.peak_nbytes() == 0, warm);
  }
}

}  // namespace
}  // namespace pteron
