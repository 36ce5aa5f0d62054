#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return make_error(Error::InvalidArgument, "%d is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  PTERON_ASSIGN_OR_RETURN(const int once, half(value));
  PTERON_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

TEST(ErrorTest, Examples) {
  EXPECT_EQ(*quarter(12), 3);
  Result<int> failed = quarter(6);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error(), Error::InvalidArgument);
  EXPECT_EQ(failed.error().message(), "3 is odd");
}

TEST(ErrorTest, SuccessHasNoMessageOfItsOwn) {
  const Error error = Error::Ok;
  EXPECT_TRUE(error.ok());
  EXPECT_EQ(error.message(), "Ok");
}

TEST(ErrorTest, CodeWithoutMessageSaysItsName) {
  EXPECT_EQ(Error(Error::DelegateInvalidHandle).message(), "DelegateInvalidHandle");
  EXPECT_STREQ(Error::name(static_cast<Error::Code>(0x77)), "Unknown");
}

TEST(ErrorTest, ContextGoesInFront) {
  Error error = make_error(Error::NotFound, "no key %s", "k").with_context("method forward");
  EXPECT_EQ(error, Error::NotFound);
  EXPECT_EQ(error.message(), "method forward: no key k");
  EXPECT_TRUE(Error(Error::Ok).with_context("anything").ok());
}

TEST(ErrorTest, LongMessagesAreWhole) {
  const std::string text(10000, 'x');
  EXPECT_EQ(make_error(Error::Internal, "%s!", text.c_str()).message(), text + "!");
}

TEST(ErrorTest, NumbersAreThoseOfTheFormat) {
  EXPECT_EQ(Error::InvalidArgument, 0x12);
  EXPECT_EQ(Error::OperatorMissing, 0x14);
  EXPECT_EQ(Error::NotFound, 0x20);
  EXPECT_EQ(Error::InvalidProgram, 0x23);
  EXPECT_EQ(Error::DelegateInvalidCompatibility, 0x30);
}

TEST(ResultTest, FromSuccessWithoutValueIsAnError) {
  const Result<int> result{Error(Error::Ok)};
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), Error::Internal);
}

TEST(ResultTest, MovesItsValue) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(4));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(result.get());
  EXPECT_EQ(*taken, 4);
}

}  // namespace
}  // namespace pteron
