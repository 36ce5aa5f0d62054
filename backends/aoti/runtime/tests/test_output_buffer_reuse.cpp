// Buffers of outputs go to the request that becomes the output, and stay with who keeps them.
//
#include <gtest/gtest.h>

#include <vector>

#include "pteron/backends/aoti/runtime/output_buffer_reuse.h"

namespace pteron::aoti {
namespace {

using slim::SlimTensor;

constexpr Device kDevice{DeviceType::CUDA, 1};

class OutputBufferReuseTest : public ::testing::Test {
 protected:
  // An output that lies in `storage`.
  static SlimTensor tensor_in(const slim::StorageRef& storage) {
    const int64_t size[] = {static_cast<int64_t>(storage->nbytes)}, stride[] = {1};
    SlimTensor tensor;
    EXPECT_TRUE(tensor.set(storage, size, stride, 0, slim::DType::Byte).ok());
    return tensor;
  }

  // Memory for a request that is refused.
  slim::StorageRef elsewhere(size_t index, size_t nbytes) {
    reuse_.note(other_[index]);
    return *slim::borrow_storage(other_[index], nbytes, kDevice);
  }

  alignas(64) char memory_[3][64];
  alignas(64) char other_[3][64];
  OutputBufferReuse reuse_;
};

TEST_F(OutputBufferReuseTest, AreOfJustTheSize) {
  EXPECT_FALSE(reuse_.take(64));
  const OutputBuffer wanted[] = {{memory_[0], 64, 0}, {memory_[1], 32, 1}};
  reuse_.offer(wanted, kDevice);
  EXPECT_FALSE(reuse_.take(63));
  const slim::StorageRef first = reuse_.take(64), second = reuse_.take(32);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->data, memory_[0]);
  EXPECT_EQ(first->nbytes, 64u);
  EXPECT_EQ(first->device, kDevice);
  EXPECT_EQ(second->data, memory_[1]);
  reuse_.withdraw({});
  EXPECT_FALSE(reuse_.take(64));
}

TEST_F(OutputBufferReuseTest, GoToTheRequestThatBecomesTheOutput) {
  // Three requests of one size, of which the third becomes output 0 and the second output 1.
  const OutputBuffer wanted[] = {{memory_[0], 64, 0}, {memory_[1], 64, 1}};
  for (int run = 0; run < 3; ++run) {
    reuse_.offer(wanted, kDevice);
    std::vector<slim::StorageRef> got;
    for (size_t request = 0; request < 3; ++request) {
      slim::StorageRef storage = reuse_.take(64);
      got.push_back(storage ? storage : elsewhere(request, 64));
    }
    SlimTensor first = tensor_in(got[2]), second = tensor_in(got[1]);
    if (run > 0) {
      EXPECT_EQ(got[0]->data, other_[0]);
      EXPECT_EQ(first.data(), memory_[0]);
      EXPECT_EQ(second.data(), memory_[1]);
    }
    SlimTensor* const outputs[] = {&first, &second};
    reuse_.withdraw(outputs);
  }
}

TEST_F(OutputBufferReuseTest, AreNotGivenForAnOutputThatNobodyAskedMemoryFor) {
  const OutputBuffer wanted[] = {{memory_[0], 64, 0}};
  SlimTensor input = tensor_in(*slim::borrow_storage(other_[0], 64, kDevice));
  SlimTensor* const outputs[] = {&input};
  reuse_.offer(wanted, kDevice);
  EXPECT_TRUE(reuse_.take(64));
  reuse_.withdraw(outputs);
  reuse_.offer(wanted, kDevice);
  EXPECT_FALSE(reuse_.take(64));
  reuse_.withdraw(outputs);
}

TEST_F(OutputBufferReuseTest, OneThatIsKeptIsLeftAlone) {
  slim::StorageRef kept;
  {
    OutputBufferReuse reuse;
    const OutputBuffer before[] = {{memory_[0], 64, 0}}, after[] = {{memory_[1], 64, 0}};
    reuse.offer(before, kDevice);
    kept = reuse.take(64);
    reuse.withdraw({});
    reuse.offer(after, kDevice);
    EXPECT_EQ(kept->data, memory_[0]);
    const slim::StorageRef other = reuse.take(64);
    EXPECT_EQ(other->data, memory_[1]);
  }
  EXPECT_EQ(kept->data, memory_[0]);
}

}  // namespace
}  // namespace pteron::aoti
