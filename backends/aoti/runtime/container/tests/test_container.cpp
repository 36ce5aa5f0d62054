
#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/container.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"

namespace pteron::aoti {
namespace {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

struct CountingScope final : ContainerScope {
  int entered = 0;
  bool inside = false;
  bool fails = false;
  Error enter() noexcept override {
    if (fails) return Error(Error::InvalidState, "no such device");
    ++entered;
    inside = true;
    return Error::Ok;
  }
  void leave() noexcept override { inside = false; }
};

std::shared_ptr<SharedObject> toy() {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
  EXPECT_TRUE(object.ok()) << object.error().message();
  return object.ok() ? *object : nullptr;
}

std::unique_ptr<Container> make(std::shared_ptr<ContainerScope> scope = nullptr) {
  Result<std::unique_ptr<Container>> container = Container::create(toy(), "cpu", std::move(scope));
  EXPECT_TRUE(container.ok()) << container.error().message();
  return container.ok() ? std::move(*container) : nullptr;
}

TensorPtr over(float* data) {
  const int64_t size = 3, stride = 1;
  return std::move(*slim::make_tensor_from_blob(data, Span<const int64_t>(&size, 1),
                                                Span<const int64_t>(&stride, 1), 0, DType::Float,
                                                Device{}));
}

TEST(Container, Runs) {
  std::unique_ptr<Container> container = make();
  ASSERT_EQ(container->num_inputs(), 1u);
  ASSERT_EQ(container->num_outputs(), 1u);
  float x[] = {1, 2, 3};
  SlimTensor* inputs[] = {over(x).release()};
  SlimTensor* outputs[] = {nullptr};
  Error error = container->run(inputs, outputs, nullptr);
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(inputs[0], nullptr);
  const TensorPtr y(outputs[0]);
  EXPECT_EQ(y->data_as<float>()[2], 6);
}

TEST(Container, UsesConstantsInPlace) {
  float bias[] = {10, 20, 30}, x[] = {1, 2, 3};
  std::unique_ptr<Container> container = make();
  std::vector<NamedConstant> constants;
  constants.push_back({"bias", over(bias)});
  Error error = container->set_borrowed_constants(std::move(constants));
  ASSERT_TRUE(error.ok()) << error.message();
  bias[1] = 50;
  SlimTensor* inputs[] = {over(x).release()};
  SlimTensor* outputs[] = {nullptr};
  ASSERT_TRUE(container->run(inputs, outputs, nullptr).ok());
  const TensorPtr y(outputs[0]);
  EXPECT_EQ(y->data_as<float>()[1], 54);
  EXPECT_EQ(container->set_borrowed_constants({}), Error::InvalidState);
}

TEST(Container, RefusesUnknownConstants) {
  float bias[] = {1, 2, 3};
  std::unique_ptr<Container> container = make();
  std::vector<NamedConstant> constants;
  constants.push_back({"offset", over(bias)});
  Error error = container->set_borrowed_constants(std::move(constants));
  EXPECT_EQ(error, Error::InvalidProgram);
  EXPECT_NE(error.message().find("offset"), std::string::npos);
}

TEST(Container, FailsWithTheModelsWordsAndGoesOn) {
  std::unique_ptr<Container> container = make();
  float bad[] = {13, 0, 0}, good[] = {1, 1, 1};
  SlimTensor* inputs[] = {over(bad).release()};
  SlimTensor* outputs[] = {nullptr};
  Error error = container->run(inputs, outputs, nullptr);
  ASSERT_FALSE(error.ok());
  EXPECT_NE(error.message().find("thirteen"), std::string::npos) << error.message();
  EXPECT_EQ(inputs[0], nullptr);
  EXPECT_EQ(outputs[0], nullptr);
  inputs[0] = over(good).release();
  ASSERT_TRUE(container->run(inputs, outputs, nullptr).ok());
  delete outputs[0];
}

TEST(Container, RefusesAnotherNumberOfArguments) {
  std::unique_ptr<Container> container = make();
  float x[] = {1, 2, 3};
  SlimTensor* inputs[] = {over(x).release(), over(x).release()};
  SlimTensor* outputs[] = {nullptr};
  EXPECT_FALSE(container->run(inputs, outputs, nullptr).ok());
  EXPECT_EQ(inputs[1], nullptr);
}

TEST(Container, SaysWhyItCannotBeCreated) {
  Result<std::unique_ptr<Container>> container = Container::create(toy(), "tpu", nullptr);
  ASSERT_FALSE(container.ok());
  EXPECT_NE(container.error().message().find("unknown device"), std::string::npos);
}

TEST(Container, EntersItsScopeAroundEveryCall) {
  auto scope = std::make_shared<CountingScope>();
  {
    std::unique_ptr<Container> container = make(scope);
    EXPECT_EQ(scope->entered, 1);
    float x[] = {1, 2, 3};
    SlimTensor* inputs[] = {over(x).release()};
    SlimTensor* outputs[] = {nullptr};
    ASSERT_TRUE(container->run(inputs, outputs, nullptr).ok());
    delete outputs[0];
    EXPECT_EQ(scope->entered, 2);
  }
  EXPECT_EQ(scope->entered, 3);
  EXPECT_FALSE(scope->inside);
}

TEST(Container, CallsNothingWhereItsScopeCannotBeEntered) {
  auto scope = std::make_shared<CountingScope>();
  std::unique_ptr<Container> container = make(scope);
  scope->fails = true;
  float x[] = {1, 2, 3};
  SlimTensor* inputs[] = {over(x).release()};
  SlimTensor* outputs[] = {nullptr};
  EXPECT_EQ(container->run(inputs, outputs, nullptr).message(), "no such device");
  EXPECT_EQ(inputs[0], nullptr);
  EXPECT_EQ(outputs[0], nullptr);
  EXPECT_EQ(Container::create(toy(), "cpu", scope).error().message(), "no such device");
  std::vector<NamedConstant> constants;
  constants.push_back({"bias", over(x)});
  EXPECT_EQ(container->set_borrowed_constants(std::move(constants)), Error::InvalidState);
  scope->fails = false;
  inputs[0] = over(x).release();
  EXPECT_TRUE(container->run(inputs, outputs, nullptr).ok());
  delete outputs[0];
}

TEST(Container, ASteadyStateAsksTheSystemForNothing) {
  std::unique_ptr<Container> container = make();
  float x[] = {1, 2, 3};
  uint64_t after_first = 0;
  for (int i = 0; i < 100; ++i) {
    SlimTensor* inputs[] = {over(x).release()};
    SlimTensor* outputs[] = {nullptr};
    ASSERT_TRUE(container->run(inputs, outputs, nullptr).ok());
    delete outputs[0];
    if (i == 0) after_first = slim::caching_allocator_stats().system_allocations;
  }
  EXPECT_EQ(slim::caching_allocator_stats().system_allocations, after_first);
}

TEST(Container, IsUnmappedOnALiveThread) {
  {
    std::unique_ptr<Container> container = make();
    float x[] = {13, 2, 3};
    SlimTensor* inputs[] = {over(x).release()};
    SlimTensor* outputs[] = {nullptr};
    EXPECT_FALSE(container->run(inputs, outputs, nullptr).ok());
    EXPECT_GT(mapped_shared_objects(), 0);
  }
  EXPECT_EQ(mapped_shared_objects(), 0);
}

}  // namespace
}  // namespace pteron::aoti
