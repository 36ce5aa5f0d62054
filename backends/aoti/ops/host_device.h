// Qualifiers for functions that compile as C++, as CUDA and, where BUILD.bazel turns a header into
// text, as Metal shader code (there launch() defines them).
#pragma once

#ifdef __CUDACC__
#define PTERON_HOST_DEVICE __host__ __device__
#else
#define PTERON_HOST_DEVICE
#endif

// The address space of references and pointers in shaders.
#define PTERON_CONSTANT const
#define PTERON_DEVICE_MEMORY
#define PTERON_THREAD
