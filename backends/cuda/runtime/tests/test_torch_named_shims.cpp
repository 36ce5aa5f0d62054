// Shims by torch's names, as code that is linked against libtorch's C functions calls them.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "torch/csrc/inductor/aoti_torch/c/shim.h"
#include "torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h"

namespace pteron::cuda::testing {
namespace {

// Those of the CUDA runtime and driver stay private.
std::vector<std::string> torch_names() {
  const char* const names[] = {
#define AOTI_COMMON_SHIM(name, ...) "aoti_torch_" #name,
#define AOTI_CONSTANT_SHIM(name, ...) "aoti_torch_" #name,
#define AOTI_SHIM(name, ...) "aoti_torch_cuda_" #name,
#include "pteron/backends/aoti/shims/shims.inc"
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_CONSTANT_SHIM
  };
  std::vector<std::string> found;
  for (const std::string name : names) {
    if (name.rfind("aoti_torch_", 0) == 0) found.push_back(name);
  }
  return found;
}

// ---- nothing of this needs a GPU ----

TEST(TorchNamedShims, EveryNameOfTheListsIsExported) {
  EXPECT_GE(torch_names().size(), 130u);
  for (const std::string& name : torch_names()) {
    void* found = dlsym(RTLD_DEFAULT, name.c_str());
    ASSERT_NE(found, nullptr) << name;
    // A function of its own, which is found again by its address.
    Dl_info info;
    ASSERT_NE(dladdr(found, &info), 0) << name;
    EXPECT_EQ(info.dli_sname, name);
  }
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "aoti_torch_cuda_no_such_shim"), nullptr);
}

TEST(TorchNamedShims, AShimChecksItsArguments) {
  EXPECT_EQ(aoti_torch_device_type_cuda(), 1);
  EXPECT_NE(aoti_torch_cuda_mm_out(nullptr, nullptr, nullptr), 0);
}

// ---- the device ----

TEST(TorchNamedShims, MmOut) {
  PTERON_REQUIRE_CUDA();
  const int64_t sizes[] = {2, 2}, strides[] = {2, 1};
  AtenTensorHandle tensors[3];
  void* data[3];
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(),
                                       aoti_torch_device_type_cuda(), 0, &tensors[i]),
              0);
    ASSERT_EQ(aoti_torch_get_data_ptr(tensors[i], &data[i]), 0);
  }
  int64_t* found = nullptr;
  ASSERT_EQ(aoti_torch_get_sizes(tensors[0], &found), 0);
  EXPECT_EQ(std::vector<int64_t>(found, found + 2), (std::vector<int64_t>{2, 2}));

  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  ASSERT_EQ(cudaMemcpy(data[1], a, sizeof(a), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(data[2], b, sizeof(b), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(aoti_torch_cuda_mm_out(tensors[0], tensors[1], tensors[2]), 0);
  std::vector<float> out(4);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(out.data(), data[0], sizeof(a), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out, (std::vector<float>{19, 22, 43, 50}));
  for (AtenTensorHandle tensor : tensors) EXPECT_EQ(aoti_torch_delete_tensor_object(tensor), 0);
}

}  // namespace
}  // namespace pteron::cuda::testing
