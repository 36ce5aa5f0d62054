#include <gtest/gtest.h>

#include <vector>

#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/weight_store.h"

namespace pteron::cuda {
namespace {

using Bytes = std::vector<uint8_t>;

// More than the two buffers that bytes go over.
const Bytes kGood(size_t{20} << 20, 1);

Bytes rotten() {
  Bytes bytes = kGood;
  bytes.back() ^= 4;
  return bytes;
}

StorageRef upload(const Sha256Digest& digest, const Bytes& bytes) {
  WeightUpload upload(0);
  Result<StorageRef> storage = upload.add(digest, bytes);
  EXPECT_TRUE(storage.ok()) << storage.error().message();
  EXPECT_TRUE(upload.finish().ok());
  return storage.ok() ? *storage : StorageRef();
}

Bytes contents(const StorageRef& storage) {
  Bytes bytes(storage->nbytes);
  EXPECT_EQ(cudaMemcpy(bytes.data(), storage->data, bytes.size(), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return bytes;
}

TEST(WeightStore, EqualBytesAreThereOnce) {
  PTERON_REQUIRE_CUDA();
  const Sha256Digest digest = sha256(kGood);
  const StorageRef first = upload(digest, kGood), second = upload(digest, Bytes(kGood));
  EXPECT_EQ(first->data, second->data);
  EXPECT_EQ(contents(second), kGood);
}

TEST(WeightStore, ARottenFileHarmsNobodyElse) {
  PTERON_REQUIRE_CUDA();
  const Sha256Digest digest = sha256(kGood);  // which both files claim
  const StorageRef first = upload(digest, rotten());
  const StorageRef second = upload(digest, kGood);
  EXPECT_EQ(contents(second), kGood);
  EXPECT_EQ(contents(first), rotten());
}

TEST(WeightStore, NorDoesAWrongDigestWithinOneFile) {
  PTERON_REQUIRE_CUDA();
  WeightUpload upload(0);
  const Bytes short_one(100, 1);
  const Bytes bytes = rotten();
  Result<StorageRef> first = upload.add(Sha256Digest(), kGood);
  Result<StorageRef> again = upload.add(Sha256Digest(), Bytes(kGood));
  Result<StorageRef> second = upload.add(Sha256Digest(), bytes);
  Result<StorageRef> third = upload.add(Sha256Digest(), short_one);
  ASSERT_TRUE(first.ok() && again.ok() && second.ok() && third.ok() && upload.finish().ok());
  EXPECT_EQ((*first)->data, (*again)->data);
  EXPECT_EQ(contents(*first), kGood);
  EXPECT_EQ(contents(*second), bytes);
  EXPECT_EQ(contents(*third), short_one);
}

}  // namespace
}  // namespace pteron::cuda
