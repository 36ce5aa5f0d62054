// A program with a gigabyte of constants: loading it reads none of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

constexpr int64_t kLargeNbytes = int64_t{1} << 30;

// The file is sparse: what was never written takes no disk and reads as zeros.
std::string write_large_program() {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  program.add_constant(floats({1, 2, 3, 4}));
  program.false_ranges[0] = {0, static_cast<uint64_t>(kLargeNbytes)};
  const int large = method.add(TensorSpec::constant({kLargeNbytes / 4}, 1));
  const int small = method.add(TensorSpec::constant({4}, 1));
  const int out = method.add(TensorSpec::planned({4}, 0));
  method.kernel("test::add.out", {small, small, out, out});
  method.outputs = {out, large};
  const std::string path = write_file("large.pte", write_program(program, {false, true}));
  const off_t nbytes = static_cast<off_t>(std::ifstream(path, std::ios::ate).tellg());
  EXPECT_EQ(::truncate(path.c_str(), nbytes + kLargeNbytes), 0);
  return path;
}

// Bytes of this process that are in memory.
size_t resident_nbytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(LargeFileTest, LoadingReadsNoConstants) {
  const std::string path = write_large_program();
  const size_t before = resident_nbytes();
  auto program = value_of(Program::load(path));
  auto method = value_of(program->load_method("forward"));
  ASSERT_TRUE(method->execute().ok());
  const size_t after = resident_nbytes();
  // The pages that the method used, those that the kernel maps around them, and the method itself.
  EXPECT_LT(after - before, size_t{4} << 20);

  const Tensor& large = method->get_output(1).tensor();
  EXPECT_EQ(static_cast<int64_t>(large.nbytes()), kLargeNbytes);
  EXPECT_EQ(large.data_as<const float>()[3], 4);
  EXPECT_EQ(large.data_as<const float>()[large.numel() - 1], 0) << "the mapping goes to the end";
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace pteron
