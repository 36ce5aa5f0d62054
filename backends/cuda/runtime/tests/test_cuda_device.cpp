#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pteron/backends/cuda/runtime/cuda_device.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/weight_store.h"

namespace pteron::cuda {
namespace {

using testing::contiguous;
using testing::HostTensor;
using testing::TensorPtr;

TEST(CudaDevice, RefusesCodeForAGpuThatNobodyNames) {
  std::shared_ptr<void> shared;
  const Error error = CudaDevice(CudaSpecs(), &shared).check_machine(aoti::Metadata());
  EXPECT_EQ(error, Error::InvalidProgram);
  EXPECT_NE(error.message().find("lower the model again"), std::string::npos) << error.message();
}

// Float matrices as a program has them.
class Constants final {
 public:
  explicit Constants(const std::vector<int64_t>& rows) {
    values_.reserve(rows.size());
    for (const int64_t count : rows) {
      const HostTensor host = HostTensor::random({count, 3}, static_cast<uint64_t>(count));
      values_.emplace_back(host.values.begin(), host.values.end());
      aoti::ConstantInfo info;
      info.name = info.fqn = "matrix";
      info.sizes = host.sizes;
      info.strides = contiguous(host.sizes);
      info.nbytes = values_.back().size() * sizeof(float);
      bytes_.emplace_back(reinterpret_cast<const uint8_t*>(values_.back().data()), info.nbytes);
      info.digest = sha256(bytes_.back());
      infos_.push_back(std::move(info));
    }
  }
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;

  void expect_on_device(const std::vector<TensorPtr>& tensors) const {
    ASSERT_EQ(tensors.size(), infos_.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors[i]->data()) % 256, 0u) << i;
      const HostTensor expected{infos_[i].sizes, {values_[i].begin(), values_[i].end()}};
      EXPECT_TRUE(testing::equal_to(testing::to_host(*tensors[i]), expected)) << i;
    }
  }

  std::vector<TensorPtr> load(CudaDevice* device) const {
    Result<std::vector<TensorPtr>> tensors = device->make_constants(infos_, bytes_);
    EXPECT_TRUE(tensors.ok()) << tensors.error().message();
    return tensors.ok() ? std::move(*tensors) : std::vector<TensorPtr>();
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<aoti::ConstantInfo> infos_;
  std::vector<Span<const uint8_t>> bytes_;
};

TEST(CudaDevice, DelegatesShareConstantsWhateverTheirOrder) {
  PTERON_REQUIRE_CUDA();
  std::shared_ptr<void> shared;
  CudaDevice first_device(CudaSpecs(), &shared), second_device(CudaSpecs(), &shared);
  const size_t before = weight_use(0).count;
  // From 342 rows on they have memory of their own.
  const Constants first({1000, 1, 500, 7}), second({500, 2, 1000});
  std::vector<TensorPtr> of_first = first.load(&first_device);
  std::vector<TensorPtr> of_second = second.load(&second_device);
  first.expect_on_device(of_first);
  second.expect_on_device(of_second);
  ASSERT_TRUE(of_first.size() == 4 && of_second.size() == 3);
  EXPECT_EQ(of_first[0]->data(), of_second[2]->data());
  EXPECT_EQ(of_first[2]->data(), of_second[0]->data());
  EXPECT_EQ(weight_use(0).count, before + 4);  // two of them hold what is small
  of_first.clear();
  EXPECT_EQ(weight_use(0).count, before + 3);
  second.expect_on_device(of_second);
  of_second.clear();
  EXPECT_EQ(weight_use(0).count, before);
}

TEST(CudaDevice, SaysWhichConstantDoesNotFit) {
  PTERON_REQUIRE_CUDA();
  std::shared_ptr<void> shared;
  CudaDevice device(CudaSpecs(), &shared);
  const size_t before = weight_use(0).count;
  aoti::ConstantInfo info;
  info.fqn = "layer.bias";
  info.sizes = {3};
  info.strides = {1};
  const std::vector<aoti::ConstantInfo> infos = {info};
  const uint8_t bytes[8] = {};
  const std::vector<Span<const uint8_t>> spans = {Span<const uint8_t>(bytes)};
  const Result<std::vector<TensorPtr>> tensors = device.make_constants(infos, spans);
  ASSERT_FALSE(tensors.ok());
  EXPECT_NE(tensors.error().message().find("layer.bias"), std::string::npos)
      << tensors.error().message();
  EXPECT_EQ(weight_use(0).count, before);
}

}  // namespace
}  // namespace pteron::cuda
