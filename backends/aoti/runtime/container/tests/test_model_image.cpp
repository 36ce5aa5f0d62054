#include <thread>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/model_image.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_image.h"

namespace pteron::aoti {
namespace {

TEST(ModelImage, LoadsFromMemoryAndUnloads) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  ASSERT_EQ(mapped_images(), 0);
  {
    Result<std::shared_ptr<ModelImage>> image = ModelImage::load(bytes, sha256(bytes));
    ASSERT_TRUE(image.ok()) << image.error().message();
    EXPECT_GT(mapped_images(), 0);
    EXPECT_NE((*image)->symbol("AOTInductorModelContainerRunSingleThreaded"), nullptr);
    EXPECT_EQ((*image)->symbol("no_such_function"), nullptr);
    EXPECT_EQ((*image)->imported().front(), "aoti_torch_delete_tensor_object");
  }
  EXPECT_EQ(mapped_images(), 0);
}

TEST(ModelImage, EqualBytesAreLoadedOnce) {
  const std::vector<uint8_t> bytes = read_toy("toy_model"), copy = bytes;
  Result<std::shared_ptr<ModelImage>> first = ModelImage::load(bytes, sha256(bytes));
  Result<std::shared_ptr<ModelImage>> second = ModelImage::load(copy, sha256(copy));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->get(), second->get());
}

TEST(ModelImage, LoadsAgainAfterUnloading) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  for (int i = 0; i < 5; ++i) {
    Result<std::shared_ptr<ModelImage>> image = ModelImage::load(bytes, sha256(bytes));
    ASSERT_TRUE(image.ok()) << image.error().message();
  }
  EXPECT_EQ(mapped_images(), 0);
}

TEST(ModelImage, ThreadsShareOne) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  std::vector<std::shared_ptr<ModelImage>> images(8);
  std::vector<std::thread> threads;
  for (auto& image : images) {
    threads.emplace_back([&bytes, &image] {
      Result<std::shared_ptr<ModelImage>> result = ModelImage::load(bytes, sha256(bytes));
      if (result.ok()) image = *result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& image : images) EXPECT_EQ(image, images[0]);
  EXPECT_NE(images[0], nullptr);
}

TEST(ModelImage, RefusesDamagedBytesBeforeOpeningThem) {
  std::vector<uint8_t> bytes = read_toy("toy_model");
  const Sha256Digest digest = sha256(bytes);
  for (size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::vector<uint8_t> damaged = bytes;
    damaged[at] ^= 1;
    Result<std::shared_ptr<ModelImage>> image = ModelImage::load(damaged, digest);
    ASSERT_FALSE(image.ok());
    EXPECT_EQ(image.error(), Error::InvalidProgram);
    EXPECT_NE(image.error().message().find(to_hex(digest)), std::string::npos);
  }
}

TEST(ModelImage, NamesEveryMissingShim) {
  const std::vector<uint8_t> bytes = read_toy("toy_model_missing");
  ASSERT_FALSE(bytes.empty());
  Result<std::shared_ptr<ModelImage>> image = ModelImage::load(bytes, sha256(bytes));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error(), Error::OperatorMissing);
  const std::string message = image.error().message();
  EXPECT_NE(message.find("aoti_torch_cpu_no_such_operator"), std::string::npos) << message;
  EXPECT_NE(message.find("aoti_torch_cpu_nor_this_one"), std::string::npos) << message;
  EXPECT_EQ(mapped_images(), 0);
}

}  // namespace
}  // namespace pteron::aoti
