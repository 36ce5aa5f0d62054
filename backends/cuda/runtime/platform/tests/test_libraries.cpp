// The pinned libraries open, and have what the backend calls. Needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "pteron/backends/cuda/runtime/platform/cublas.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"

namespace pteron::cuda {
namespace {

TEST(Libraries, Cublas) {
  Result<const Cublas*> cublas = Cublas::get();
  ASSERT_TRUE(cublas.ok()) << cublas.error().message();
}

TEST(Libraries, Cudnn) {
  Result<const Cudnn*> cudnn = Cudnn::get();
  ASSERT_TRUE(cudnn.ok()) << cudnn.error().message();
  // Of one of its parts, which it opens by name.
  cudnnBackendDescriptor_t tensor = nullptr;
  ASSERT_EQ((*cudnn)->cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ((*cudnn)->cudnnBackendDestroyDescriptor(tensor), CUDNN_STATUS_SUCCESS);
}

// cuDNN opens it by this name.
TEST(Libraries, NvrtcCompilesOnceCudnnIsOpen) {
  ASSERT_TRUE(Cudnn::get().ok());
  void* nvrtc = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(nvrtc, nullptr) << dlerror();
  using Create =
      int (*)(void**, const char*, const char*, int, const char* const*, const char* const*);
  using Compile = int (*)(void*, int, const char* const*);
  const auto create = reinterpret_cast<Create>(dlsym(nvrtc, "nvrtcCreateProgram"));
  const auto compile = reinterpret_cast<Compile>(dlsym(nvrtc, "nvrtcCompileProgram"));
  ASSERT_TRUE(create && compile);
  void* program = nullptr;
  const char kText[] = "extern \"C\" __global__ void fill(float* x) { x[threadIdx.x] = 1; }";
  ASSERT_EQ(create(&program, kText, "fill.cu", 0, nullptr, nullptr), 0);
  const char* const options[] = {"--gpu-architecture=sm_90"};
  EXPECT_EQ(compile(program, 1, options), 0);  // 7 without its builtins
}

}  // namespace
}  // namespace pteron::cuda
