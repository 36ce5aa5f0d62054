// C functions of operators of one's own, which compiled models call by name.
//
//   // torch: mylib::scale(Tensor x, float factor) -> Tensor
//   using namespace pteron::aoti;
//   PTERON_OPERATOR(cpu_scale, AtenTensorHandle x, double factor, AtenTensorHandle* ret0) {
//     void* data = nullptr;
//     if (ptrn_torch_get_data_ptr(x, &data) != kAotiSuccess) return kAotiFailure;
//     ...
//     return kAotiSuccess;
//   }
//
// A function is named after device (`cpu`, `cuda`) and operator, without the namespace. Parameters
// are those of AOTInductor's C shims: a tensor is an AtenTensorHandle, an int an int64_t, a float a
// double, a bool an int32_t, a str a const char*; a list is a pointer and an int64_t; an optional is
// a pointer that may be null; each result is an AtenTensorHandle* at the end. Inputs are borrowed. A
// result is a new handle, which the caller owns. Sizes and strides are in elements.
//
// A model finds the function in a program that links it, or in a shared library that was opened
// before the model is loaded: dlopen(path, RTLD_NOW | RTLD_GLOBAL), or pteron.load_operators(path).
//
// Any thread may call a function, several at once. On CUDA it launches on the stream of
// ptrn_torch_get_current_cuda_stream(device index, &stream). It returns kAotiFailure for an error,
// which fails the run; it must not throw.
#pragma once

#include "pteron/backends/aoti/shims/shims.h"

// Defines the function, with C linkage, under the name by which models find it.
#define PTERON_OPERATOR(name, ...) PTERON_AOTI_SHIM(pteron::aoti::AOTITorchError, name)(__VA_ARGS__)

PTERON_AOTI_SHIM(pteron::aoti::AOTITorchError, get_current_cuda_stream)
(int32_t device_index, void** ret_stream);
