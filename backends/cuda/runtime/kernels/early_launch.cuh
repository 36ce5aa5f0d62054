// Programmatic dependent launch (CUDA C++ Programming Guide): from compute capability 9.0 on, the
// GPU starts a kernel while the one before it on the stream ends.
//
//   __global__ void kernel(...) {
//     prefetch(weights);           // what no kernel before writes; into the L2 cache alone
//     wait_for_kernels_before();   // before it reads or writes memory
//     ...
//   }
//   launch_early(kernel, grid, block, nbytes, stream, ...);
#pragma once

#include <cuda_runtime.h>

namespace pteron::cuda {

// Returns when all kernels before this one have ended and their writes are visible. By each thread,
// first of all; lets the next kernel start before that, which waits for this one in the same way.
__device__ inline void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Begins to read the cache line of an address into the L2 cache. A later write is seen
// nevertheless.
__device__ inline void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// As kernel<<<grid, block, nbytes, stream>>>(arguments...), of a kernel that begins as above.
// cudaGetLastError() tells failures.
template <typename... Parameters, typename... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t nbytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  int device = 0, major = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = nbytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = known && major >= 9 ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace pteron::cuda
