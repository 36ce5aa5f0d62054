// PTERON_HOST_DEVICE: of a function that the host and kernels of CUDA call.
#pragma once

#ifdef __CUDACC__
#define PTERON_HOST_DEVICE __host__ __device__
#else
#define PTERON_HOST_DEVICE
#endif
