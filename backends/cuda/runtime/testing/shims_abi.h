// The shims under test, by the names they are exported under and with the types of the C ABI.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/shims/shim_export.h"

#define AOTI_COMMON_SHIM(...)
#define CUDA_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef CUDA_SHIM
#undef AOTI_COMMON_SHIM

using pteron::aoti::AOTITorchError;
using pteron::aoti::AtenTensorHandle;

extern "C" {
                                                      AtenTensorHandle src, const char* reduce,
                                                      int32_t include_self);
                                                      int64_t dim, AtenTensorHandle index,
                                               const int64_t* size, int64_t size_len_);
                                            int64_t indices_len_, AtenTensorHandle* ret0);
                                         int32_t accumulate, AtenTensorHandle* ret0);
                                         int64_t indices_len_, AtenTensorHandle values,
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
    int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0);
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
AOTITorchError ptrn_torch_cuda_convolution(
AOTITorchError ptrn_torch_cuda_index_Tensor(AtenTensorHandle self, const AtenTensorHandle** indices,
AOTITorchError ptrn_torch_cuda_index_put(AtenTensorHandle self, const AtenTensorHandle** indices,
AOTITorchError ptrn_torch_cuda_nonzero(AtenTensorHandle self, AtenTensorHandle* ret0);
AOTITorchError ptrn_torch_cuda_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high,
AOTITorchError ptrn_torch_cuda_scatter_reduce_two_out(AtenTensorHandle out, AtenTensorHandle self,
AOTITorchError ptrn_torch_create_cuda_guard(int32_t device_index, void** ret_guard);
AOTITorchError ptrn_torch_delete_cuda_guard(void* guard);
AOTITorchError ptrn_torch_cuda_guard_set_index(void* guard, int32_t device_index);
AOTITorchError ptrn_torch_create_cuda_stream_guard(void* stream, int32_t device_index,
                                                   void** ret_guard);
AOTITorchError ptrn_torch_delete_cuda_stream_guard(void* guard);
AOTITorchError ptrn_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);
AOTITorchError ptrn_torch_cuda_caching_allocator_raw_alloc(uint64_t nbytes, void** ret_ptr);
AOTITorchError ptrn_torch_cuda_caching_allocator_raw_delete(void* ptr);
}
