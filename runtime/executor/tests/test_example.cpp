// The example of runtime/executor/program.h, as it stands there.
#include <gtest/gtest.h>
#include <string.h>

#include <string>

#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

// [example.begin]
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"

namespace pteron {

// Runs method "forward" of a program that takes and gives one float32[1, 4].
Error run(const std::string& path, float* x, float* y) {
  PTERON_ASSIGN_OR_RETURN(auto program, Program::load(path));
  PTERON_ASSIGN_OR_RETURN(auto method, program->load_method("forward"));
  const int64_t sizes[] = {1, 4};
  PTERON_ASSIGN_OR_RETURN(Tensor input, Tensor::make(ScalarType::Float, sizes, x));
  PTERON_RETURN_IF_ERROR(method->set_input(0, EValue(input)));
  PTERON_RETURN_IF_ERROR(method->execute());
  const Tensor& output = method->get_output(0).tensor();
  memcpy(y, output.data(), output.nbytes());
  return Error::Ok;
}
// [example.end]

namespace {

TEST(Example, Runs) {
  testing::ProgramSpec program;
  testing::MethodSpec& method = program.add_method("forward");
  const int x = method.add(testing::TensorSpec::planned({1, 4}, 0));
  const int y = method.add(testing::TensorSpec::planned({1, 4}, 64));
  method.kernel("test::add.out", {x, x, y, y});
  method.inputs = {x};
  method.outputs = {y};
  const std::string path = testing::write_file("example.pte", testing::write_program(program));

  float input[] = {1, 2, 3, 4};
  float output[4] = {};
  const Error error = run(path, input, output);
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(output[3], 8);
  EXPECT_EQ(run("/no/such/file.pte", input, output), Error::NotFound);
}

}  // namespace
}  // namespace pteron
