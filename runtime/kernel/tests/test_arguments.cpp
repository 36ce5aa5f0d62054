#include <gtest/gtest.h>

#include <vector>

#include "pteron/runtime/kernel/portable/arguments.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron::kernels {
namespace {

int64_t seen = 0;

PTERON_DEFINE_KERNEL(example, (const Tensor& self, int64_t count, Scalar factor, Tensor& out)) {
  seen = count + factor.to<int64_t>() + self.numel() + out.numel();
  return Error::Ok;
}

PTERON_DEFINE_KERNEL(with_list, (Ints ints)) {
  seen = ints[0];
  return Error::Ok;
}

class Arguments : public testing::Test {
 protected:
  Error call(KernelFunction kernel, std::initializer_list<EValue*> arguments) {
    const std::vector<EValue*> list(arguments);
    return kernel(context_, {list.data(), list.size()});
  }
  void expect(const Error& error, Error::Code code, const char* message) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.message(), message);
  }

  KernelContext context_;
  float memory_[2] = {};
  int64_t sizes_[1] = {2};
  EValue tensor_{Tensor::make(ScalarType::Float, sizes_, memory_).get()};
  EValue out_{Tensor::make(ScalarType::Float, sizes_, memory_).get()};
  EValue int_{int64_t{5}};
  EValue double_{2.0};
};

TEST_F(Arguments, ReachTheBodyAsTheirTypes) {
  ASSERT_TRUE(call(example, {&tensor_, &int_, &double_, &out_, &out_}).ok());
  EXPECT_EQ(seen, 5 + 2 + 4);
  ASSERT_TRUE(call(example, {&tensor_, &int_, &int_, &out_}).ok());
  EXPECT_EQ(seen, 5 + 5 + 4);
  EValue* const ints[] = {&int_};
  EValue list(IntList{ints});
  ASSERT_TRUE(call(with_list, {&list}).ok());
  EXPECT_EQ(seen, 5);
}

TEST_F(Arguments, TooFew) {
  expect(call(example, {&tensor_, &int_, &double_}), Error::InvalidArgument,
         "found 3 arguments, expected 4");
}

TEST_F(Arguments, OfAnotherKind) {
  expect(call(example, {&tensor_, &double_, &double_, &out_}), Error::InvalidType,
         "argument 1 is Double, expected Int");
  expect(call(example, {&tensor_, &int_, &tensor_, &out_}), Error::InvalidType,
         "argument 2 is Tensor, expected Int or Double or Bool");
}

TEST_F(Arguments, ListsOfAnotherKind) {
  EValue* const doubles[] = {&double_};
  EValue list(IntList{doubles});
  expect(call(with_list, {&list}), Error::InvalidType,
         "argument 0 is a list with an item that is Double, expected Int");
}

TEST_F(Arguments, WithoutMemory) {
  tensor_.tensor().set_data(nullptr, 0);
  expect(call(example, {&tensor_, &int_, &double_, &out_}), Error::InvalidState,
         "argument 0, float32[2], has no memory");
}

TEST_F(Arguments, ReadAndWritten) {
  expect(call(example, {&out_, &int_, &double_, &out_}), Error::InvalidArgument,
         "argument 0 is also argument 3, which is written");
}

TEST_F(Arguments, ConstantsAreRead) {
  tensor_.tensor().set_constant_data(memory_, sizeof(memory_));
  EXPECT_TRUE(call(example, {&tensor_, &int_, &double_, &out_}).ok());
  expect(
      call(example, {&out_, &int_, &double_, &tensor_}), Error::InvalidArgument,
      "argument 3 is read-only (a constant of the program, or an input over memory that its owner "
      "lets nobody write), and is written");
}

TEST_F(Arguments, OnADevice) {
  tensor_ = EValue(Tensor::make(ScalarType::Float, sizes_, memory_, {DeviceType::CUDA, 0}).get());
  EXPECT_EQ(call(example, {&tensor_, &int_, &double_, &out_}).code(), Error::NotSupported);
}

}  // namespace
}  // namespace pteron::kernels
