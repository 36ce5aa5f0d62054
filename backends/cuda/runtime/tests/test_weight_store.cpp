#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

using Parts = std::vector<Span<const uint8_t>>;

std::vector<StorageRef> upload_together(const Parts& parts) {
  WeightUpload upload(0);
  Result<std::vector<StorageRef>> storages = upload.add_together(parts);
  EXPECT_TRUE(storages.ok()) << storages.error().message();
  EXPECT_TRUE(upload.finish().ok());
  return storages.ok() ? *storages : std::vector<StorageRef>(parts.size());
}

TEST(WeightStore, AWeightIsFreedWithItsLastUser) {
  PTERON_REQUIRE_CUDA();
  const Sha256Digest digest = sha256(kGood);
  const size_t before = weight_use(0).nbytes;
  StorageRef first = upload(digest, kGood), second = upload(digest, kGood);
  EXPECT_EQ(weight_use(0).nbytes, before + kGood.size());
  first = StorageRef();
  EXPECT_EQ(contents(second), kGood);
  EXPECT_EQ(weight_use(0).nbytes, before + kGood.size());
  second = StorageRef();
  EXPECT_EQ(weight_use(0).nbytes, before);
}

TEST(WeightStore, WeightsShareBlocksOfMemory) {
  PTERON_REQUIRE_CUDA();
  const size_t nbytes = 1000, count = 4, step = 1024;
  std::vector<Bytes> all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(nbytes, static_cast<uint8_t>(i + 10));
  const size_t before = weight_use(0).nbytes;
  std::vector<StorageRef> storages;
  {
    WeightUpload upload(0, count * step);
    for (const Bytes& bytes : all) {
      Result<StorageRef> storage = upload.add(sha256(bytes), bytes);
      ASSERT_TRUE(storage.ok()) << storage.error().message();
      storages.push_back(*storage);
    }
    ASSERT_TRUE(upload.finish().ok());
  }
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(storages[i]->data, static_cast<char*>(storages[0]->data) + i * step) << i;
    EXPECT_EQ(contents(storages[i]), all[i]) << i;
  }
  EXPECT_EQ(weight_use(0).nbytes, before + count * nbytes);
  storages.resize(1);  // which keeps the block
  EXPECT_EQ(contents(storages[0]), all[0]);
  EXPECT_EQ(weight_use(0).nbytes, before + nbytes);
  storages.clear();
  EXPECT_EQ(weight_use(0).nbytes, before);
}

TEST(WeightStore, SmallOnesAreOneAllocationWhateverTheirOrder) {
  PTERON_REQUIRE_CUDA();
  Bytes file(4096);
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<uint8_t>(i * 7 + i / 256);
  const Bytes copy = file;
  const auto parts_of = [](const Bytes& bytes) {
    // At odd offsets, too, as in files of one blob; the second is there twice.
    const uint8_t* data = bytes.data();
    return Parts{{data + 2048, 1}, {data + 101, 1000}, {data, 100}, {data + 101, 1000}, {data, 0}};
  };
  const Parts parts = parts_of(file);
  Parts reversed = parts_of(copy);
  std::reverse(reversed.begin(), reversed.end());

  const size_t before = weight_use(0).count;
  std::vector<StorageRef> first = upload_together(parts), second = upload_together(reversed);
  EXPECT_EQ(weight_use(0).count, before + 1);
  std::reverse(second.begin(), second.end());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first[i]->data) % 256, 0u) << i;
    EXPECT_EQ(first[i]->data, second[i]->data) << i;
    EXPECT_EQ(contents(first[i]), Bytes(parts[i].begin(), parts[i].end())) << i;
  }
  EXPECT_EQ(first[1]->data, first[3]->data);
  first.clear();
  second.resize(1);  // one of them keeps all
  EXPECT_EQ(contents(second[0]), Bytes(1, file[2048]));
  EXPECT_EQ(weight_use(0).count, before + 1);
  second.clear();
  EXPECT_EQ(weight_use(0).count, before);
}

}  // namespace
}  // namespace pteron::cuda
