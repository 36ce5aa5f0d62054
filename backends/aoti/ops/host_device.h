// Words for functions that are C++, CUDA and, where Bazel makes text of a header (BUILD.bazel), a
// shader of Metal, where launch() defines them.
#pragma once

#ifdef __CUDACC__
#define PTERON_HOST_DEVICE __host__ __device__
#else
#define PTERON_HOST_DEVICE
#endif

// Before references and pointers, in shaders: where it is that they lead.
#define PTERON_CONSTANT const
#define PTERON_DEVICE_MEMORY
#define PTERON_THREAD
