// Kernels as compiled code launches them, on the recording device.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/apple/metal/runtime/shims/command_shims.h"
#include "pteron/backends/apple/metal/runtime/testing/recording_gpu.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron::metal {
namespace {

using Encode = std::function<void(KernelFunction*)>;

constexpr char kTwice[] = R"(
#include <metal_stdlib>
kernel void twice(device float* out, constant float* in, constant long& count,
                  uint i [[thread_position_in_grid]]) {
  if (i < count) out[i] = 2 * in[i];
}
)";

// sums[group] = the sum of the group, over memory of the group.
constexpr char kSums[] = R"(
#include <metal_stdlib>
[[max_total_threads_per_threadgroup(64)]]
kernel void sums(device float* out, constant float* in, uint2 at [[thread_position_in_grid]],
                 uint2 group [[threadgroup_position_in_grid]]) {
  threadgroup float parts[2];
  const float part = metal::simd_sum(in[at.y]);
  if (at.y % 32 == 0) parts[at.y % 64 / 32] = part;
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  if (at.y % 64 == 0) out[group.y] = parts[0] + parts[1];
}
)";

class CommandShims : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_gpu(std::make_unique<RecordingGpu>()); }

  void TearDown() override {
    for (ShaderLibrary* library : libraries_) ptrn_torch_mps_delete_shader_library(library);
    (void)aoti::take_run_failure();
  }

  KernelFunction* function(const char* source, const char* name) {
    ShaderLibrary* library = nullptr;
    EXPECT_EQ(ptrn_torch_mps_create_shader_library(source, &library), aoti::kAotiSuccess);
    libraries_.push_back(library);
    KernelFunction* found = nullptr;
    EXPECT_EQ(ptrn_torch_mps_get_kernel_function(library, name, &found), aoti::kAotiSuccess);
    return found;
  }

  slim::TensorPtr floats(std::vector<float> values) {
    const int64_t sizes[] = {static_cast<int64_t>(values.size())}, strides[] = {1};
    Result<slim::TensorPtr> tensor =
        slim::make_tensor(sizes, strides, slim::DType::Float, Device{DeviceType::Metal, 0});
    EXPECT_TRUE(tensor.ok());
    std::copy(values.begin(), values.end(), (*tensor)->data_as<float>());
    return std::move(*tensor);
  }

  // What the run failed with; empty if it did not.
  std::string run(KernelFunction* func, Encode encode) {
    ptrn_torch_mps_run_command_block(func, ptrn_torch_mps_shared_callback, &encode);
    if (!aoti::run_has_failed()) return "";
    const std::string said = aoti::take_run_failure().message(), before = "check in the model: ";
    return said.rfind(before, 0) == 0 ? said.substr(before.size()) : said;
  }

 private:
  std::vector<ShaderLibrary*> libraries_;
};

TEST_F(CommandShims, LaunchesAKernel) {
  const slim::TensorPtr in = floats({1, 2, 3}), out = floats({0, 0, 7});
  EXPECT_EQ(run(function(kTwice, "twice"),
                [&](KernelFunction* func) {
                  ptrn_torch_mps_start_encoding(func);
                  ptrn_torch_mps_set_arg_tensor(func, 0, out.get());
                  ptrn_torch_mps_set_arg_tensor(func, 1, in.get());
                  ptrn_torch_mps_set_arg_int(func, 2, 2);
                  ptrn_torch_mps_dispatch_single(func, 3);
                }),
            "");
  EXPECT_EQ(std::vector<float>(out->data_as<float>(), out->data_as<float>() + 3),
            (std::vector<float>{2, 4, 7}));
}

TEST_F(CommandShims, ThreadsOfAGroupWaitForEachOther) {
  std::vector<float> numbers(128);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const slim::TensorPtr in = floats(numbers), out = floats({0, 0});
  const uint64_t grid[] = {1, 128}, group[] = {1, 64};
  EXPECT_EQ(run(function(kSums, "sums"),
                [&](KernelFunction* func) {
                  ptrn_torch_mps_start_encoding(func);
                  ptrn_torch_mps_set_arg_tensor(func, 0, out.get());
                  ptrn_torch_mps_set_arg_tensor(func, 1, in.get());
                  ptrn_torch_mps_dispatch_array_with_group_size(func, grid, 2, group, 2);
                }),
            "");
  EXPECT_EQ(out->data_as<float>()[0], 63 * 32);
  EXPECT_EQ(out->data_as<float>()[1], 64 * 64 + 63 * 32);
}

TEST_F(CommandShims, AKernelThatDoesNotCompileIsNamedWithItsLine) {
  KernelFunction* func =
      function("kernel void wrong(device float* out) {\n  out[0] = nix;\n}", "wrong");
  ASSERT_NE(func, nullptr);
  const std::string said = run(func, [](KernelFunction*) { FAIL() << "it was run"; });
  EXPECT_NE(said.find("kernel wrong does not compile"), std::string::npos) << said;
  EXPECT_NE(said.find("kernel:2:"), std::string::npos) << said;
  EXPECT_NE(said.find("nix"), std::string::npos) << said;
}

TEST_F(CommandShims, AnUnknownKernelIsAnError) {
  const std::string said =
      run(function(kTwice, "thrice"), [](KernelFunction*) { FAIL() << "it was run"; });
  EXPECT_EQ(said, "no kernel thrice in the library, which has twice");
}

TEST_F(CommandShims, WhatIsEncodedWronglyIsAnError) {
  const slim::TensorPtr in = floats({1}), out = floats({0});
  std::vector<float> host(1);
  auto elsewhere =
      value_of(slim::make_tensor_from_blob(host.data(), out->sizes(), out->strides(), 0,
                                           slim::DType::Float, Device{DeviceType::Metal, 0}, 4));
  KernelFunction* func = function(kTwice, "twice");
  const auto with = [&](Encode encode) { return run(func, std::move(encode)); };
  const auto set_out = [&](KernelFunction* f) { ptrn_torch_mps_set_arg_tensor(f, 0, out.get()); };

  EXPECT_EQ(with([](KernelFunction*) {}), "twice: the command block dispatched nothing");
  EXPECT_EQ(with(set_out), "the function's encoding has not been started");
  EXPECT_EQ(with([&](KernelFunction* f) {
              ptrn_torch_mps_start_encoding(f);
              set_out(f);
              set_out(f);
            }),
            "twice: argument 0 is set already");
  EXPECT_EQ(with([&](KernelFunction* f) {
              ptrn_torch_mps_start_encoding(f);
              ptrn_torch_mps_set_arg_int(f, 2, 1);
              ptrn_torch_mps_dispatch_single(f, 1);
            }),
            "twice: argument 0 of 3 is not set");
  EXPECT_EQ(with([&](KernelFunction* f) {
              ptrn_torch_mps_start_encoding(f);
              set_out(f);
              ptrn_torch_mps_dispatch_single(f, 1);
            }),
            "twice: 1 arguments, the kernel has 3");
  EXPECT_EQ(with([&](KernelFunction* f) {
              ptrn_torch_mps_start_encoding(f);
              ptrn_torch_mps_set_arg_int(f, 31, 1);
            }),
            "twice: argument 31, expected 0 to 30");
  const auto complete = [&](slim::SlimTensor* input, const std::vector<uint64_t>& group) {
    return with([&, input](KernelFunction* f) {
      ptrn_torch_mps_start_encoding(f);
      set_out(f);
      ptrn_torch_mps_set_arg_tensor(f, 1, input);
      ptrn_torch_mps_set_arg_int(f, 2, 1);
      ptrn_torch_mps_dispatch_single_with_group_size(f, 1, group[0]);
    });
  };
  EXPECT_EQ(complete(in.get(), {2000}), "twice: groups of 2000 threads, expected 1 to 1024");
  EXPECT_EQ(complete(in.get(), {0}), "twice: groups of 0 threads, expected 1 to 1024");
  const std::string said = complete(elsewhere.get(), {1});
  EXPECT_NE(said.find("twice: argument 1: "), std::string::npos) << said;
  EXPECT_NE(said.find("is no memory of the device"), std::string::npos) << said;
}

TEST_F(CommandShims, AGridWithoutThreadsIsNothingToDo) {
  const slim::TensorPtr in = floats({1}), out = floats({5});
  EXPECT_EQ(run(function(kTwice, "twice"),
                [&](KernelFunction* func) {
                  ptrn_torch_mps_start_encoding(func);
                  ptrn_torch_mps_set_arg_tensor(func, 0, out.get());
                  ptrn_torch_mps_set_arg_tensor(func, 1, in.get());
                  ptrn_torch_mps_set_arg_int(func, 2, 1);
                  ptrn_torch_mps_dispatch_single(func, 0);
                }),
            "");
  EXPECT_EQ(out->data_as<float>()[0], 5);
}

TEST_F(CommandShims, ABarrierThatSomeDoNotReachIsAnError) {
  const slim::TensorPtr out = floats({0});
  const uint64_t grid[] = {4}, group[] = {4};
  const std::string said =
      run(function("#include <metal_stdlib>\n"
                   "kernel void half_of_them(device float* out,\n"
                   "    uint i [[thread_position_in_grid]]) {\n"
                   "  if (i < 2) return;\n"
                   "  threadgroup_barrier(metal::mem_flags::mem_none);\n"
                   "}\n",
                   "half_of_them"),
          [&](KernelFunction* func) {
            ptrn_torch_mps_start_encoding(func);
            ptrn_torch_mps_set_arg_tensor(func, 0, out.get());
            ptrn_torch_mps_dispatch_array_with_group_size(func, grid, 1, group, 1);
          });
  EXPECT_EQ(said,
            "half_of_them: 2 of 4 threads of a group wait at a barrier, and the others have "
            "returned");
}

TEST_F(CommandShims, MemoryOfAContainer) {
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(ptrn_torch_mps_malloc(&a, 8), aoti::kAotiSuccess);
  ASSERT_EQ(ptrn_torch_mps_malloc(&b, 8), aoti::kAotiSuccess);
  uint8_t constants[] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(ptrn_torch_mps_memcpy(a, 4, 2, 3, constants), aoti::kAotiSuccess);
  EXPECT_EQ(ptrn_torch_mps_copy_buffer(a, b, 3, 4, 1), aoti::kAotiSuccess);
  const auto* const copied = static_cast<const uint8_t*>(b);
  EXPECT_EQ(std::vector<uint8_t>(copied + 1, copied + 4), (std::vector<uint8_t>{3, 4, 5}));
  EXPECT_EQ(ptrn_torch_mps_free(a), aoti::kAotiSuccess);
  EXPECT_EQ(ptrn_torch_mps_free(b), aoti::kAotiSuccess);
  EXPECT_EQ(ptrn_torch_mps_malloc(nullptr, 8), aoti::kAotiFailure);
}

}  // namespace
}  // namespace pteron::metal
