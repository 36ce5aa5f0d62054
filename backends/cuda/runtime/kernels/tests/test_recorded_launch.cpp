// What was recorded of a library's kernels does what they did.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/recorded_launch.h"
#include "pteron/backends/cuda/runtime/strided_copy.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using testing::equal_to;
using testing::HostTensor;
using testing::poisoned;
using testing::round_to;
using testing::TensorPtr;
using testing::to_device;
using testing::to_host;

class RecordedLaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PTERON_REQUIRE_CUDA();
    ASSERT_EQ(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (side_) (void)cudaStreamDestroy(side_);
    if (stream_) (void)cudaStreamDestroy(stream_);
  }

  // Transposes (30, 50) on `stream`: one kernel of ours.
  static bool transpose(const TensorPtr& target, const TensorPtr& source, cudaStream_t stream) {
    StridedCopy copy;
    copy.target = target->data();
    copy.source = source->data();
    copy.item_nbytes = 4;
    copy.add_dim(30, 1, 50);
    copy.add_dim(50, 30, 1);
    return strided_copy(copy, stream).ok();
  }

  cudaStream_t side_ = nullptr, stream_ = nullptr;
};

TEST_F(RecordedLaunchTest, RunsNothingUntilItIsLaunched) {
  const HostTensor numbers = round_to(HostTensor::random({30, 50}, 1), DType::Float);
  TensorPtr source = to_device(numbers, DType::Float), out = poisoned({50, 30}, DType::Float);
  TensorPtr expected = poisoned({50, 30}, DType::Float);
  ASSERT_TRUE(transpose(expected, source, stream_));
  const auto recorded = RecordedLaunch::record(
      side_, [&](cudaStream_t stream) { return transpose(out, source, stream); });
  ASSERT_NE(recorded, nullptr);
  EXPECT_EQ(recorded->num_launches(), 1u);
  const HostTensor before = to_host(*out);
  EXPECT_TRUE(before.values[0] != before.values[0]) << "written while it was recorded";
  ASSERT_TRUE(recorded->launch(stream_).ok());
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(equal_to(to_host(*out), to_host(*expected)));
}

TEST_F(RecordedLaunchTest, KeepsTheOrderOfAChain) {
  const HostTensor numbers = round_to(HostTensor::random({30, 50}, 2), DType::Float);
  TensorPtr source = to_device(numbers, DType::Float);
  TensorPtr between = poisoned({50, 30}, DType::Float), out = poisoned({50, 30}, DType::Float);
  TensorPtr expected = poisoned({50, 30}, DType::Float);
  // Both read as (30, 50).
  const auto twice = [&](const TensorPtr& a, const TensorPtr& b, cudaStream_t stream) {
    return transpose(a, source, stream) && transpose(b, a, stream);
  };
  ASSERT_TRUE(twice(between, expected, stream_));
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  TensorPtr again = poisoned({50, 30}, DType::Float);
  const auto recorded =
      RecordedLaunch::record(side_, [&](cudaStream_t stream) { return twice(again, out, stream); });
  ASSERT_NE(recorded, nullptr);
  EXPECT_EQ(recorded->num_launches(), 2u);
  ASSERT_TRUE(recorded->launch(stream_).ok());
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(equal_to(to_host(*out), to_host(*expected)));
}

TEST_F(RecordedLaunchTest, ZeroesWhatWasZeroed) {
  TensorPtr source = to_device(HostTensor::random({30, 50}, 4), DType::Float);
  TensorPtr sum = poisoned({50, 30}, DType::Float), zeros = poisoned({8}, DType::Float);
  const auto recorded = RecordedLaunch::record(side_, [&](cudaStream_t stream) {
    return cudaMemsetAsync(zeros->data(), 0, 20, stream) == cudaSuccess &&
           transpose(sum, source, stream);
  });
  ASSERT_NE(recorded, nullptr);
  EXPECT_EQ(recorded->num_launches(), 2u);
  ASSERT_TRUE(recorded->launch(stream_).ok());
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const std::vector<double> found = to_host(*zeros).values;
  EXPECT_TRUE(std::all_of(found.begin(), found.begin() + 5, [](double x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(found.begin() + 5, found.end(), [](double x) { return x != x; }));
}

TEST_F(RecordedLaunchTest, TakesNothingElse) {
  TensorPtr out = poisoned({8}, DType::Float), in = poisoned({8}, DType::Float);
  const auto ones = [&](cudaStream_t stream) {
    return cudaMemsetAsync(out->data(), 1, 32, stream) == cudaSuccess;
  };
  const auto copy = [&](cudaStream_t stream) {
    return cudaMemcpyAsync(out->data(), in->data(), 32, cudaMemcpyDeviceToDevice, stream) ==
           cudaSuccess;
  };
  EXPECT_EQ(RecordedLaunch::record(side_, ones), nullptr);
  EXPECT_EQ(RecordedLaunch::record(side_, copy), nullptr);
  EXPECT_EQ(RecordedLaunch::record(side_, [](cudaStream_t) { return true; }), nullptr);
  EXPECT_EQ(RecordedLaunch::record(side_, [](cudaStream_t) { return false; }), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  // The stream is as it was.
  EXPECT_EQ(cudaMemsetAsync(out->data(), 0, 32, side_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(side_), cudaSuccess);
}

TEST_F(RecordedLaunchTest, CanBeCaptured) {
  TensorPtr source = to_device(HostTensor::random({30, 50}, 3), DType::Float);
  TensorPtr out = poisoned({50, 30}, DType::Float);
  const auto recorded = RecordedLaunch::record(
      side_, [&](cudaStream_t stream) { return transpose(out, source, stream); });
  ASSERT_NE(recorded, nullptr);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_TRUE(recorded->launch(stream_).ok());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace pteron::cuda
