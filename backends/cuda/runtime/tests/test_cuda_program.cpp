// Whole programs on the device: two delegates in one method, streams, threads, devices.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"
#include "pteron/backends/cuda/runtime/tests/toy_program.h"
#include "pteron/backends/cuda/runtime/weight_store.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/module.h"

namespace pteron::cuda::testing {
namespace {

constexpr size_t kNbytes = kToySize * kToySize * 4;

HostTensor random_input(uint64_t seed) {
  return round_to(HostTensor::random({kToySize, kToySize}, seed), DType::Float);
}

EValue value_of(const SlimTensor& tensor) {
  const int64_t sizes[] = {kToySize, kToySize};
  return EValue(*Tensor::make(ScalarType::Float, sizes, tensor.data(), tensor.device()));
}

std::vector<float> output_of(const Method& method) {
  std::vector<float> values(kToySize * kToySize, -1.0f);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(
      cudaMemcpy(values.data(), method.get_output(0).tensor().data(), kNbytes, cudaMemcpyDefault),
      cudaSuccess);
  return values;
}

::testing::AssertionResult matches(const Method& method, const HostTensor& expected) {
  const std::vector<float> values = output_of(method);
  const HostTensor found{expected.sizes, {values.begin(), values.end()}};
  return close_to(found, expected, 2 * gemm_tolerance(DType::Float, kToySize));
}

class CudaProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    PTERON_REQUIRE_CUDA();
    auto loaded = Program::load(toy_.bytes());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    program_ = std::move(*loaded);
  }

  std::unique_ptr<Method> load(const char* devices = nullptr, bool record_products = false) {
    LoadMethodOptions options;
    options.backend_options["CudaBackend"] = {{"record_products", record_products}};
    if (devices) {
      EXPECT_TRUE(options.devices.add(devices).ok());
    }
    auto method = program_->load_method("forward", options);
    EXPECT_TRUE(method.ok()) << method.error().message();
    return method.ok() ? std::move(*method) : nullptr;
  }

  const ToyProgram toy_;
  std::shared_ptr<const Program> program_;
};

TEST(CudaProgramContract, SaysThatThereIsNoDevice) {
  if (device_count() > 0) GTEST_SKIP() << "there is a CUDA device";
  auto program = Program::load(ToyProgram().bytes());
  ASSERT_TRUE(program.ok()) << program.error().message();
  const auto method = (*program)->load_method("forward");
  ASSERT_FALSE(method.ok());
  EXPECT_NE(method.error().message().find("no CUDA device"), std::string::npos)
      << method.error().message();
}

TEST_F(CudaProgram, SaysWhatAnOptionMustBe) {
  for (const std::string key : {"allow_tf32", "record_products"}) {
    LoadMethodOptions options;
    options.backend_options["CudaBackend"] = {{key, int64_t{1}}};
    const auto method = program_->load_method("forward", options);
    ASSERT_FALSE(method.ok());
    EXPECT_NE(method.error().message().find("option " + key + ": expected a bool"),
              std::string::npos)
        << method.error().message();
  }
}

TEST_F(CudaProgram, SaysHowManyGraphsThereMayBe) {
  for (const std::variant<bool, int64_t, std::string>& value :
       {std::variant<bool, int64_t, std::string>(true), {int64_t{0}}}) {
    LoadMethodOptions options;
    options.backend_options["CudaBackend"] = {{"max_graphs", value}};
    const auto method = program_->load_method("forward", options);
    ASSERT_FALSE(method.ok());
    EXPECT_NE(method.error().message().find("option max_graphs: expected an int of at least 1"),
              std::string::npos)
        << method.error().message();
  }
}

TEST_F(CudaProgram, RunsAsPrepared) {
  for (const char* devices : {"cuda:0=cuda:0", "cuda:0=cuda:1"}) {
    const Device device = *parse_device(std::string(devices).substr(7));
    if (device.index >= device_count()) continue;  // RunsOnTheSecondDevice says so
    const std::unique_ptr<Method> plain = load(devices), method = load(devices);
    ASSERT_TRUE(plain && method);
    const TensorPtr example = poisoned({kToySize, kToySize}, DType::Float, {}, device);
    ASSERT_TRUE(method->set_input(0, value_of(*example)).ok());
    const Error error = method->prepare();
    ASSERT_TRUE(error.ok()) << error.message();
    const Stream stream(device.index);
    for (uint64_t seed = 80; seed < 86; ++seed) {
      const TensorPtr input = to_device(random_input(seed), DType::Float, {}, device);
      ASSERT_TRUE(plain->set_input(0, value_of(*input)).ok());
      ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
      ASSERT_TRUE(plain->execute().ok());
      const uint64_t products = gemm_counts().asked + gemm_counts().recorded;
      if (seed % 2 == 0) {
        ASSERT_TRUE(method->execute().ok());
      } else {
        const auto guard = stream.make_current();
        ASSERT_TRUE(guard.ok());
        ASSERT_TRUE(method->execute().ok());
      }
      EXPECT_EQ(gemm_counts().asked + gemm_counts().recorded, products) << "not as prepared";
      ASSERT_EQ(cudaSetDevice(device.index), cudaSuccess);
      EXPECT_EQ(output_of(*method), output_of(*plain));
      ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    }
  }
}

TEST_F(CudaProgram, CallersMayCaptureWhatIsPrepared) {
  const std::unique_ptr<Method> method = load();
  ASSERT_TRUE(method);
  const HostTensor x = random_input(90);
  const TensorPtr input = to_device(x, DType::Float);
  ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
  ASSERT_TRUE(method->prepare().ok());
  const Stream stream;
  {
    const auto guard = stream.make_current();
    ASSERT_TRUE(guard.ok());
    stream.capture(cudaStreamCaptureModeRelaxed, [&] {
      const Error error = method->execute();
      EXPECT_TRUE(error.ok()) << error.message();
    });
  }
  ASSERT_TRUE(method->execute().ok());
  EXPECT_TRUE(matches(*method, toy_.reference(x)));
}

TEST_F(CudaProgram, RunsOnItsOwnStreamAndOnTheCallers) {
  const std::unique_ptr<Method> method = load();
  ASSERT_TRUE(method);
  const Stream stream;
  for (uint64_t seed = 10; seed < 16; ++seed) {
    const HostTensor x = random_input(seed);
    const TensorPtr input = to_device(x, DType::Float);
    ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
    if (seed % 2 == 0) {
      ASSERT_TRUE(method->execute().ok());
    } else {
      const auto guard = stream.make_current();
      ASSERT_TRUE(guard.ok());
      ASSERT_TRUE(method->execute().ok());
    }
    EXPECT_TRUE(matches(*method, toy_.reference(x)));
  }
}

TEST_F(CudaProgram, RecordsProductsWhereTheCallerAllowsIt) {
  for (const bool allowed : {false, true}) {
    const std::unique_ptr<Method> method = load(nullptr, allowed);
    ASSERT_TRUE(method);
    const TensorPtr input = poisoned({kToySize, kToySize}, DType::Float);
    ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
    const GemmCounts before = gemm_counts();
    for (uint64_t seed = 70; seed < 76; ++seed) {
      const HostTensor x = random_input(seed);
      ASSERT_EQ(cudaMemcpy(input->data(), to_device(x, DType::Float)->data(), kNbytes,
                           cudaMemcpyDeviceToDevice),
                cudaSuccess);
      ASSERT_TRUE(method->execute().ok());
      EXPECT_TRUE(matches(*method, toy_.reference(x)));
    }
    EXPECT_EQ(gemm_counts().recorded > before.recorded, allowed);
    EXPECT_GT(gemm_counts().asked, before.asked);
  }
}

TEST_F(CudaProgram, DelegatesShareAStreamAndNeitherWaitNorAllocate) {
  // A capture takes in nothing but asynchronous work on the one stream, and fails on anything that
  // waits, allocates or goes elsewhere.
  const std::unique_ptr<Method> method = load();
  ASSERT_TRUE(method);
  const Stream stream;
  const TensorPtr input = to_device(random_input(20), DType::Float);
  ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
  cudaGraph_t graph = nullptr;
  {
    const auto guard = stream.make_current();
    ASSERT_TRUE(guard.ok());
    ASSERT_TRUE(method->execute().ok());  // makes handles, plans and memory
    ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
    const Error error = method->execute();
    ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess) << error.message();
    ASSERT_TRUE(error.ok()) << error.message();
  }
  size_t num_nodes = 0, num_edges = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &num_nodes), cudaSuccess);
  std::vector<cudaGraphNode_t> nodes(num_nodes);
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes.data(), &num_nodes), cudaSuccess);
  int kernels = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    ASSERT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
    // No copy: outputs are computed where they belong.
    EXPECT_TRUE(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset) << type;
    kernels += type == cudaGraphNodeTypeKernel;
  }
  EXPECT_GE(kernels, 2);
  ASSERT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &num_edges), cudaSuccess);
  EXPECT_EQ(num_edges, num_nodes - 1) << "not one chain";
  // What was captured computes the same, from whatever is in the input then.
  const HostTensor x = random_input(21);
  const TensorPtr next = to_device(x, DType::Float);
  ASSERT_EQ(cudaMemcpy(input->data(), next->data(), kNbytes, cudaMemcpyDeviceToDevice),
            cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream.get()), cudaSuccess);
  EXPECT_TRUE(matches(*method, toy_.reference(x)));
  // And the method goes on without it, on its own stream.
  ASSERT_TRUE(method->execute().ok());
  EXPECT_TRUE(matches(*method, toy_.reference(x)));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(CudaProgram, EightThreadsGetEqualResults) {
  constexpr int kThreads = 8, kCalls = 10000;
  const HostTensor x = random_input(30);
  const TensorPtr input = to_device(x, DType::Float);
  const std::unique_ptr<Method> alone = load();
  ASSERT_TRUE(alone);
  ASSERT_TRUE(alone->set_input(0, value_of(*input)).ok());
  ASSERT_TRUE(alone->execute().ok());
  EXPECT_TRUE(matches(*alone, toy_.reference(x)));
  const std::vector<float> expected = output_of(*alone);
  std::vector<std::string> problems(kThreads);
  std::vector<std::thread> threads;
  for (std::string& problem : problems) {
    threads.emplace_back([&] {
      const Stream stream;
      const std::unique_ptr<Method> method = load();
      const auto guard = stream.make_current();
      if (!method || !guard.ok() || !method->set_input(0, value_of(*input)).ok()) {
        problem = "cannot start";
        return;
      }
      std::vector<float> values(expected.size());
      for (int i = 0; i < kCalls && problem.empty(); ++i) {
        if (const Error error = method->execute(); !error.ok()) problem = error.message();
        if (i % 100 != 99) continue;
        (void)cudaMemcpyAsync(values.data(), method->get_output(0).tensor().data(), kNbytes,
                              cudaMemcpyDeviceToHost, stream.get());
        (void)cudaStreamSynchronize(stream.get());
        if (std::memcmp(values.data(), expected.data(), kNbytes) != 0) problem = "another result";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

TEST_F(CudaProgram, RunsOnTheSecondDevice) {
  if (device_count() < 2) GTEST_SKIP() << "there are no two CUDA devices";
  constexpr Device kCuda1{DeviceType::CUDA, 1};
  const std::unique_ptr<Method> method = load("cuda:0=cuda:1");
  ASSERT_TRUE(method);
  EXPECT_EQ(method->meta().inputs[0].device, kCuda1);
  const Stream stream(1);
  for (const bool callers_stream : {false, true}) {
    const HostTensor x = random_input(callers_stream ? 41 : 40);
    const TensorPtr input = to_device(x, DType::Float, {}, kCuda1);
    ASSERT_TRUE(method->set_input(0, value_of(*input)).ok());
    if (callers_stream) {
      const auto guard = stream.make_current();
      ASSERT_TRUE(method->execute().ok());
    } else {
      ASSERT_TRUE(method->execute().ok());
    }
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 0);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_TRUE(matches(*method, toy_.reference(x)));
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  const Tensor& output = method->get_output(0).tensor();
  EXPECT_EQ(output.device(), kCuda1);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, output.data()), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  const TensorPtr elsewhere = to_device(random_input(42), DType::Float);
  const Error error = method->set_input(0, value_of(*elsewhere));
  EXPECT_FALSE(error.ok());
  EXPECT_NE(error.message().find("cuda:1"), std::string::npos) << error.message();
}

TEST_F(CudaProgram, ModulesOnTwoDevicesHaveTheWeightsOnceEach) {
  if (device_count() < 2) GTEST_SKIP() << "there are no two CUDA devices";
  const HostTensor x = random_input(43);
  const auto weights = [] {
    return std::vector<size_t>{weight_use(0).nbytes, weight_use(1).nbytes};
  };
  const std::vector<size_t> before = weights();
  {
    std::vector<Module> modules;  // two a device
    for (const int device : {0, 1, 0, 1}) {
      Module::Options options;
      ASSERT_TRUE(options.load_method.devices.add("cuda:0=cuda:" + std::to_string(device)).ok());
      modules.emplace_back(program_, std::move(options));
      ASSERT_TRUE(modules.back().load_method("forward").ok());
      if (modules.size() == 2) EXPECT_EQ(weights()[0], weights()[1]);
    }
    const std::vector<size_t> twice = weights();
    EXPECT_GT(twice[0], before[0]);
    modules.pop_back();
    modules.pop_back();
    EXPECT_EQ(weights(), twice);
    std::vector<std::vector<float>> found(2, std::vector<float>(kToySize * kToySize, -1.0f));
    std::vector<std::thread> threads;
    for (int device = 0; device < 2; ++device) {
      threads.emplace_back([&, device] {
        const Device on{DeviceType::CUDA, static_cast<int8_t>(device)};
        const TensorPtr input = to_device(x, DType::Float, {}, on);
        for (int call = 0; call < 100; ++call) {
          const auto outputs = modules[device].forward(value_of(*input));
          if (!outputs.ok()) return;
          (void)cudaSetDevice(device);
          (void)cudaDeviceSynchronize();
          (void)cudaMemcpy(found[device].data(), (*outputs)[0].tensor().data(), kNbytes,
                           cudaMemcpyDefault);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(found[0], found[1]);
    const HostTensor values{{kToySize, kToySize}, {found[0].begin(), found[0].end()}};
    EXPECT_TRUE(close_to(values, toy_.reference(x), 2 * gemm_tolerance(DType::Float, kToySize)));
  }
  EXPECT_EQ(weights(), before);
}

TEST_F(CudaProgram, SaysThatADeviceDoesNotExist) {
  LoadMethodOptions options;
  ASSERT_TRUE(options.devices.add("cuda:0=cuda:63").ok());
  const auto method = program_->load_method("forward", options);
  ASSERT_FALSE(method.ok());
  EXPECT_NE(method.error().message().find("63"), std::string::npos) << method.error().message();
}

TEST_F(CudaProgram, UnloadingGivesAllMemoryBack) {
  const TensorPtr input = to_device(random_input(50), DType::Float);
  const auto free_after_cycle = [&] {
    {
      const std::unique_ptr<Method> method = load();
      EXPECT_TRUE(method->set_input(0, value_of(*input)).ok());
      EXPECT_TRUE(method->prepare().ok());
      EXPECT_TRUE(method->execute().ok());
    }
    size_t free_nbytes = 0, total_nbytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_nbytes, &total_nbytes), cudaSuccess);
    return free_nbytes;
  };
  const size_t start = free_after_cycle();  // handles and contexts stay
  size_t end = 0;
  for (int i = 0; i < 50; ++i) end = free_after_cycle();
  EXPECT_GE(end, start);
}

// Not a test of speed: shows what the runtime adds to the shims that a call makes.
TEST_F(CudaProgram, ShowsItsHostCost) {
  constexpr int kRounds = 15, kCalls = 100;
  const std::unique_ptr<Method> method = load();
  ASSERT_TRUE(method);
  const Stream stream;
  const auto guard = stream.make_current();
  const TensorPtr x = to_device(random_input(60), DType::Float),
                  weight = to_device(random_input(61), DType::Float),
                  y = poisoned({kToySize, kToySize}, DType::Float);
  ASSERT_TRUE(method->set_input(0, value_of(*x)).ok());
  const auto measure = [&](const auto& body) {
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) body();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return time.count() / kCalls;
  };
  std::vector<double> program_us, shims_us;
  for (int round = 0; round < kRounds; ++round) {
    program_us.push_back(measure([&] { EXPECT_TRUE(method->execute().ok()); }));
    shims_us.push_back(measure([&] {
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(aoti::ptrn_torch_cuda_mm_out(y.get(), x.get(), weight.get()), aoti::kAotiSuccess);
      }
    }));
  }
  std::sort(program_us.begin(), program_us.end());
  std::sort(shims_us.begin(), shims_us.end());
  std::printf("host us a call: program %.2f, its two mm_out alone %.2f, the rest %.2f\n",
              program_us[kRounds / 2], shims_us[kRounds / 2],
              program_us[kRounds / 2] - shims_us[kRounds / 2]);
}

}  // namespace
}  // namespace pteron::cuda::testing
