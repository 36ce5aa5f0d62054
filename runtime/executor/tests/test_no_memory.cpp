// Every step of a program's life with less memory than it needs: an error, never an exception.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/allocation_meter.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron {
namespace {

using testing::AllocationMeter;
using testing::Bytes;

// Gives `step` more and more memory until it succeeds.
void check_step(const char* name, const std::function<Error()>& step) {
  int failures = 0;
  for (size_t limit = 0;; limit += 64) {
    ASSERT_LT(limit, size_t{1} << 24) << name;
    Error error;
    {
      const AllocationMeter meter(limit);
      ASSERT_NO_THROW(error = step()) << name << " with " << limit << " bytes";
    }
    if (error.ok()) break;
    ++failures;
    ASSERT_EQ(error, Error::MemoryAllocationFailed) << name << ": " << error.message();
  }
  EXPECT_GT(failures, 0) << name;
}

TEST(NoMemoryTest, EveryStepSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has an operator new of its own, which is not metered";
#endif
  const auto everything = testing::EverythingProgram::make();
  const auto bytes = std::make_shared<const Bytes>(testing::write_program(everything.program));
  const auto data = std::make_shared<const Bytes>(testing::write_tensor_data(everything.data));
  LoadOptions options;
  options.data_files = {{*data, data}};
  std::shared_ptr<const Program> program;
  check_step("load", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(program, Program::load(*bytes, bytes, options));
    return Error::Ok;
  });
  check_step("method_meta", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program->method_meta("forward"));
    return Error::Ok;
  });
  std::unique_ptr<Method> method;
  check_step("load_method", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(method, program->load_method("forward"));
    return Error::Ok;
  });
}

Error throwing(KernelContext&, Span<EValue* const> arguments) {
  switch (arguments[0]->to_int()) {
    case 0:
      return Error::Ok;
    case 1:
      throw std::bad_alloc();
    case 2:
      return Error(Error::Internal, std::string(std::vector<char>().max_size() + 1, 'x'));
    default:
      throw std::runtime_error("as told");
  }
}

const Kernel kKernels[] = {{"test::throw", throwing}};
const bool kRegistered = register_kernels(kKernels).ok();

TEST(NoMemoryTest, WhatLeavesAKernelIsAnError) {
  ASSERT_TRUE(kRegistered);
  testing::ProgramSpec spec;
  testing::MethodSpec& forward = spec.add_method("forward");
  const int choice = forward.add(int64_t{0});
  forward.kernel("test::throw", {choice});
  forward.inputs = {choice};
  const auto program = value_of(Program::load(testing::write_program(spec)));
  const auto method = value_of(program->load_method("forward"));
  const auto run = [&](int64_t number) -> Error {
    PTERON_RETURN_IF_ERROR(method->set_input(0, EValue(number)));
    return method->execute();
  };
  EXPECT_EQ(run(1), Error::MemoryAllocationFailed);
  EXPECT_EQ(run(2), Error::MemoryAllocationFailed);
  const Error other = run(3);
  EXPECT_EQ(other, Error::Internal);
  EXPECT_NE(other.message().find("as told"), std::string::npos) << other.message();
  EXPECT_TRUE(run(0).ok()) << "the method is as usable as before";
}

}  // namespace
}  // namespace pteron
