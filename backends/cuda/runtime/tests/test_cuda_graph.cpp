// Graphs of runs written by hand: y = x, and n = the number given, or something that cannot be.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pteron/backends/cuda/runtime/cuda_graph.h"
#include "pteron/backends/cuda/runtime/cuda_graphs.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

constexpr int64_t kSize = 100;

EValue tensor_value(const SlimTensor& tensor) {
  return EValue(*Tensor::make(ScalarType::Float, tensor.sizes(), tensor.data(), tensor.device()));
}

class CudaGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PTERON_REQUIRE_CUDA();
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    CachingPool::Options options;
    options.keeps_blocks = true;
    pool_.reset(CachingPool::create(0, options), [](CachingPool* pool) { pool->release(); });
    x_ = to_device(HostTensor::random({kSize}, 1), DType::Float);
    y_ = poisoned({kSize}, DType::Float);
    values_ = {tensor_value(*x_), EValue(int64_t{3}), tensor_value(*y_), EValue(int64_t{0})};
  }
  void TearDown() override {
    if (stream_) {
      EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    }
  }

  static std::vector<EValue*> pointers(std::vector<EValue>* values) {
    std::vector<EValue*> found;
    for (EValue& value : *values) found.push_back(&value);
    return found;
  }

  // x and n are inputs, y and another number outputs.
  Error copy(Span<EValue* const> arguments) {
    ++runs_;
    Tensor &x = arguments[0]->tensor(), &y = arguments[2]->tensor();
    if (cudaMemcpyAsync(y.data(), x.data(), x.nbytes(), cudaMemcpyDeviceToDevice, stream_) !=
        cudaSuccess) {
      return Error::Internal;
    }
    *arguments[3] = EValue(arguments[1]->to_int() + 1);
    return Error::Ok;
  }

  Result<std::unique_ptr<CudaGraph>> capture(
      const std::function<Error(Span<EValue* const>)>& execute, std::vector<bool> fixed = {},
      bool changes = false) {
    const std::vector<EValue*> arguments = pointers(&values_);
    fixed.resize(4);
    const bool flags[] = {fixed[0], fixed[1], fixed[2], fixed[3]};
    aoti::FinishedRun run;
    run.arguments = {arguments.data(), arguments.size()};
    run.fixed = flags;
    run.num_inputs = 2;
    run.changes = [changes](size_t input) { return changes && input == 0; };
    run.execute = execute;
    return CudaGraph::capture(run, 0, pool_, stream_);
  }
  Result<std::unique_ptr<CudaGraph>> capture_copy(std::vector<bool> fixed = {},
                                                  bool changes = false) {
    return capture([this](Span<EValue* const> arguments) { return copy(arguments); },
                   std::move(fixed), changes);
  }

  bool fits(const CudaGraph& graph, std::vector<EValue> values) {
    const std::vector<EValue*> arguments = pointers(&values);
    return graph.fits({arguments.data(), arguments.size()});
  }

  void launch(const CudaGraph& graph, std::vector<EValue>* values) {
    const std::vector<EValue*> arguments = pointers(values);
    ASSERT_TRUE(graph.fits({arguments.data(), arguments.size()}));
    const Error error = graph.launch({arguments.data(), arguments.size()}, stream_);
    ASSERT_TRUE(error.ok()) << error.message();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  int runs_ = 0;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<CachingPool> pool_;
  TensorPtr x_, y_;
  std::vector<EValue> values_;
};

TEST_F(CudaGraphTest, RunsOnTensorsAtAnyAddress) {
  auto graph = capture_copy();
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  EXPECT_EQ(runs_, 2) << "on copies, and in place";
  EXPECT_FALSE(equal_to(to_host(*y_), to_host(*x_))) << "capturing computed";
  for (uint64_t seed = 2; seed < 5; ++seed) {
    const HostTensor expected = round_to(HostTensor::random({kSize}, seed), DType::Float);
    const TensorPtr x = to_device(expected, DType::Float), y = poisoned({kSize}, DType::Float);
    std::vector<EValue> values = {tensor_value(*x), EValue(int64_t{3}), tensor_value(*y),
                                  EValue(int64_t{0})};
    launch(**graph, &values);
    EXPECT_TRUE(equal_to(to_host(*y), expected));
    EXPECT_EQ(values[3].to_int(), 4);
  }
  EXPECT_EQ(runs_, 2) << "a launch ran the code";
}

TEST_F(CudaGraphTest, CopiesOnlyWhatIsNotWhereItWas) {
  auto graph = capture_copy();
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  // The graph's own memory, of which there are two blocks of one size.
  std::vector<slim::StorageRef> own;
  for (int i = 0; i < 2; ++i) {
    auto block = pool_->allocate(kSize * sizeof(float));
    ASSERT_TRUE(block.ok()) << block.error().message();
    ASSERT_EQ(cudaMemset((*block)->data, 0, kSize * sizeof(float)), cudaSuccess);
    own.push_back(std::move(*block));
  }
  EXPECT_EQ(pool_->reserved_nbytes(), pool_->in_use_nbytes());
  const auto is_used = [&] {
    std::vector<float> values(kSize);
    EXPECT_EQ(cudaMemcpy(values.data(), own[0]->data, kSize * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    return values[0] != 0;
  };
  launch(**graph, &values_);
  EXPECT_TRUE(equal_to(to_host(*y_), to_host(*x_)));
  EXPECT_FALSE(is_used());
  const TensorPtr elsewhere = poisoned({kSize}, DType::Float);
  values_[2] = tensor_value(*elsewhere);
  launch(**graph, &values_);
  EXPECT_TRUE(equal_to(to_host(*elsewhere), to_host(*x_)));
  EXPECT_TRUE(is_used());
}

TEST_F(CudaGraphTest, WorksInPlaceOnWhatStaysWhereItIs) {
  auto graph = capture_copy({true, false, true, false});
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  EXPECT_EQ(pool_->reserved_nbytes(), 0u);
  launch(**graph, &values_);
  EXPECT_TRUE(equal_to(to_host(*y_), to_host(*x_)));
  std::vector<EValue> moved = values_;
  const TensorPtr other = poisoned({kSize}, DType::Float);
  moved[0] = tensor_value(*other);
  EXPECT_FALSE(fits(**graph, moved));
}

TEST_F(CudaGraphTest, FitsEqualSizesAndNumbersOnly) {
  auto graph = capture_copy();
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  EXPECT_TRUE(fits(**graph, values_));
  const auto with = [&](size_t index, EValue value) {
    std::vector<EValue> values = values_;
    values[index] = std::move(value);
    return values;
  };
  const TensorPtr smaller = poisoned({kSize - 1}, DType::Float),
                  square = poisoned({10, 10}, DType::Float);
  EXPECT_FALSE(fits(**graph, with(0, tensor_value(*smaller))));
  EXPECT_FALSE(fits(**graph, with(0, tensor_value(*square))));
  EXPECT_FALSE(fits(**graph, with(1, EValue(int64_t{4}))));
  EXPECT_FALSE(fits(**graph, with(1, EValue(3.0))));
  EXPECT_FALSE(fits(**graph, with(2, tensor_value(*smaller)))) << "too small for the output";
  EXPECT_TRUE(fits(**graph, with(3, EValue(int64_t{-1})))) << "an output's old number";
}

TEST_F(CudaGraphTest, CopiesBackWhatTheCodeChanges) {
  auto graph = capture(
      [this](Span<EValue* const> arguments) -> Error {
        Tensor& x = arguments[0]->tensor();
        return cudaMemsetAsync(x.data(), 0, x.nbytes() / 2, stream_) == cudaSuccess
                   ? copy(arguments)
                   : Error(Error::Internal);
      },
      {}, true);
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  launch(**graph, &values_);
  HostTensor expected = round_to(HostTensor::random({kSize}, 1), DType::Float);
  std::fill_n(expected.values.begin(), kSize / 2, 0.0);
  EXPECT_TRUE(equal_to(to_host(*x_), expected));
  EXPECT_TRUE(equal_to(to_host(*y_), expected));
  std::vector<EValue> constant = values_;
  constant[0].tensor().set_constant_data(x_->data(), kSize * sizeof(float));
  EXPECT_FALSE(fits(**graph, constant)) << "it is read-only";
}

TEST_F(CudaGraphTest, RefusesWhatOutlivesACall) {
  std::vector<float> host(kSize);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, kSize * sizeof(float), cudaHostAllocDefault), cudaSuccess);
  const auto copy_from = [&](const void* source) {
    return [this, source](Span<EValue* const> arguments) -> Error {
      Tensor& y = arguments[2]->tensor();
      PTERON_CUDA_RETURN_IF_ERROR(
          cudaMemcpyAsync(y.data(), source, y.nbytes(), cudaMemcpyHostToDevice, stream_),
          "copying from the host");
      return Error::Ok;
    };
  };
  for (const void* source :
       {static_cast<const void*>(host.data()), static_cast<const void*>(pinned)}) {
    const auto graph = capture(copy_from(source));
    ASSERT_FALSE(graph.ok());
    EXPECT_NE(graph.error().message().find("host"), std::string::npos) << graph.error().message();
  }
  const auto waits = capture([this](Span<EValue* const>) -> Error {
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_), "waiting for a number");
    return Error::Ok;
  });
  ASSERT_FALSE(waits.ok());
  EXPECT_NE(waits.error().message().find("waiting for a number"), std::string::npos)
      << waits.error().message();
  const auto calls = capture([this](Span<EValue* const>) -> Error {
    PTERON_CUDA_RETURN_IF_ERROR(
        cudaLaunchHostFunc(stream_, [](void*) {}, nullptr), "calling the host");
    return Error::Ok;
  });
  ASSERT_FALSE(calls.ok());
  EXPECT_NE(calls.error().message().find("more on its stream"), std::string::npos)
      << calls.error().message();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  // The stream and the pool are as before.
  auto graph = capture_copy();
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  launch(**graph, &values_);
  EXPECT_TRUE(equal_to(to_host(*y_), to_host(*x_)));
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(CudaGraphTest, SaysThatAnArgumentIsElsewhere) {
  std::vector<float> host(kSize);
  const int64_t sizes[] = {kSize};
  values_[0] = EValue(*Tensor::make(ScalarType::Float, sizes, host.data()));
  const auto graph = capture_copy();
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message(), "argument 0 is on cpu");
}

TEST_F(CudaGraphTest, TheOneNotUsedForTheLongestTimeGoes) {
  CudaGraphs graphs;
  graphs.set_limit(2);
  const auto find = [&](int64_t number) {
    values_[1] = EValue(number);
    const std::vector<EValue*> arguments = pointers(&values_);
    return graphs.find({arguments.data(), arguments.size()}) != nullptr;
  };
  const auto add = [&](int64_t number) {
    values_[1] = EValue(number);
    graphs.make_room();
    auto graph = capture_copy();
    ASSERT_TRUE(graph.ok()) << graph.error().message();
    graphs.add(std::move(*graph));
  };
  add(1);
  add(2);
  EXPECT_TRUE(find(1));
  add(3);
  EXPECT_FALSE(find(2));
  EXPECT_TRUE(find(1));
  EXPECT_TRUE(find(3));
  // What the first one needed served all of them.
  EXPECT_EQ(pool_->reserved_nbytes(), 2 * pool_block_size(kSize * sizeof(float)));
}

}  // namespace
}  // namespace pteron::cuda::testing
