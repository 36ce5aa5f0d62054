#include <gtest/gtest.h>

#include <algorithm>

#include "pteron/runtime/kernel/registry.h"

namespace pteron {
namespace {

Error add_one(KernelContext&, Span<EValue* const> arguments) {
  *arguments[1] = EValue(arguments[0]->to_int() + 1);
  return Error::Ok;
}

const Kernel kKernels[] = {{"test::add_one", add_one}, {"test::other.out", add_one}};

TEST(Registry, Example) {
  ASSERT_TRUE(register_kernels(kKernels).ok());
  const Kernel* const kernel = find_kernel("test::add_one");
  ASSERT_NE(kernel, nullptr);
  EValue in(int64_t{41});
  EValue out;
  EValue* const arguments[] = {&in, &out};
  KernelContext context;
  ASSERT_TRUE(kernel->function(context, {arguments, 2}).ok());
  EXPECT_EQ(out.to_int(), 42);
}

TEST(Registry, FindsWholeNamesOnly) {
  EXPECT_EQ(find_kernel("test::add"), nullptr);
  EXPECT_EQ(find_kernel("test::add_one.out"), nullptr);
  EXPECT_EQ(find_kernel(""), nullptr);
}

TEST(Registry, ATakenNameAddsNoneOfTheTable) {
  static const Kernel kTaken[] = {{"test::fresh", add_one}, {"test::add_one", add_one}};
  const Error error = register_kernels(kTaken);
  EXPECT_EQ(error.code(), Error::AlreadyLoaded);
  EXPECT_NE(error.message().find("test::add_one"), std::string::npos);
  EXPECT_EQ(find_kernel("test::fresh"), nullptr);
}

TEST(Registry, ListsNamesSorted) {
  const std::vector<std::string_view> names = registered_kernels();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::count(names.begin(), names.end(), "test::other.out"), 1);
}

}  // namespace
}  // namespace pteron
