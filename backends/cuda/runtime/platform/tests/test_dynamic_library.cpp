#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "pteron/backends/cuda/runtime/platform/dynamic_library.h"

namespace pteron::cuda {
namespace {

constexpr char kBrought[] = "_pteron_cuda";

// Where the library was found: 1 what was brought, 2 elsewhere.
int where() {
  Result<DynamicLibrary> library = DynamicLibrary::open("libpteron_toy.so");
  if (!library.ok()) {
    ADD_FAILURE() << library.error().message();
    return 0;
  }
  Result<void*> function = library->symbol("pteron_toy_where");
  return function.ok() ? reinterpret_cast<int (*)()>(*function)() : 0;
}

// What is opened stays open, and the loader knows it by no name: each case looks again.
TEST(DynamicLibrary, IsFoundInTheRunfilesThatTheEnvironmentNames) {
  const char* runfiles = std::getenv("TEST_SRCDIR");
  ASSERT_NE(runfiles, nullptr);
  setenv("RUNFILES_DIR", runfiles, 1);
  EXPECT_EQ(where(), 1);
}

TEST(DynamicLibrary, IsFoundInTheRunfilesBesideTheProgram) {
  setenv("RUNFILES_DIR", "/nowhere", 1);
  EXPECT_EQ(where(), 1);
  unsetenv("RUNFILES_DIR");
  EXPECT_EQ(where(), 1);
}

TEST(DynamicLibrary, OfTheMachineGoesBeforeWhatIsBrought) {
  const std::string elsewhere = std::getenv("ELSEWHERE");
  const std::string folder = elsewhere.substr(0, elsewhere.rfind('/'));
  setenv("PTERON_CUDA_LIBRARY_PATH", ("/nowhere::" + folder).c_str(), 1);
  EXPECT_EQ(where(), 2);
  setenv("PTERON_CUDA_LIBRARY_PATH", "/nowhere", 1);
  EXPECT_EQ(where(), 1);
  unsetenv("PTERON_CUDA_LIBRARY_PATH");
}

TEST(DynamicLibrary, NowhereSaysWhereItWasLookedForAndWhatToDo) {
  setenv("RUNFILES_DIR", "/some/runfiles", 1);
  Result<DynamicLibrary> library = DynamicLibrary::open("libpteron_none.so.1");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code(), Error::NotFound);
  const std::string message(library.error().message());
  for (const std::string& folder :
       {std::string("/usr/local/cuda/lib64"), std::string("/some/runfiles/") + kBrought}) {
    EXPECT_NE(message.find(folder + "/libpteron_none.so.1: "), std::string::npos) << message;
  }
  EXPECT_NE(message.find("//third_party/cuda:libraries_at_run_time"), std::string::npos) << message;
}

TEST(DynamicLibrary, AMissingFunctionIsNamed) {
  Result<DynamicLibrary> library = DynamicLibrary::open("libpteron_toy.so");
  ASSERT_TRUE(library.ok()) << library.error().message();
  Result<void*> function = library->symbol("pteron_toy_colour");
  ASSERT_FALSE(function.ok());
  EXPECT_EQ(std::string(function.error().message()),
            "libpteron_toy.so has no function pteron_toy_colour");
}

}  // namespace
}  // namespace pteron::cuda
