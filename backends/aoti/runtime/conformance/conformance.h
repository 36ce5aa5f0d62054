// The suite of common shims that every device passes.
//
//   // One file of a backend, in its tests:
//   namespace pteron::aoti::conformance {
//   TestDevice test_device() {
//     return {/*type=*/1, /*index=*/0, /*available=*/has_gpu(), "no GPU"};
//   }
//   }  // namespace pteron::aoti::conformance
//
// and a cc_test of it over //backends/aoti/runtime/conformance and the backend's library. Contents
// go to and from the device by copy_, so that the suite knows nothing of the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::aoti::conformance {

struct TestDevice {
  int32_t type;
  int32_t index;
  bool available;
  const char* why_not;  // shown when the suite is skipped
};

// Defined by each backend that joins.
TestDevice test_device();

}  // namespace pteron::aoti::conformance

// The shims under test, as models see them.
extern "C" {
using pteron::aoti::AtenTensorHandle;
int32_t ptrn_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 AtenTensorHandle*);
int32_t ptrn_torch_empty_strided_pinned(int64_t, const int64_t*, const int64_t*, int32_t, int32_t,
                                        int32_t, AtenTensorHandle*);
int32_t ptrn_torch_create_tensor_from_blob(void*, int64_t, const int64_t*, const int64_t*, int64_t,
                                           int32_t, int32_t, int32_t, AtenTensorHandle*);
int32_t ptrn_torch_create_tensor_from_blob_v2(void*, int64_t, const int64_t*, const int64_t*,
                                              int64_t, int32_t, int32_t, int32_t, AtenTensorHandle*,
                                              int32_t, const uint8_t*, int64_t);
int32_t ptrn_torch_new_uninitialized_tensor(AtenTensorHandle*);
int32_t ptrn_torch_new_tensor_handle(AtenTensorHandle, AtenTensorHandle*);
int32_t ptrn_torch_assign_tensors(AtenTensorHandle, AtenTensorHandle);
int32_t ptrn_torch_assign_tensors_out(AtenTensorHandle, AtenTensorHandle*);
int32_t ptrn_torch_delete_tensor_object(AtenTensorHandle);
int32_t ptrn_torch__reinterpret_tensor(AtenTensorHandle, int64_t, const int64_t*, const int64_t*,
                                       int64_t, AtenTensorHandle*);
int32_t ptrn_torch__alloc_from_pool(AtenTensorHandle, int64_t, int32_t, int64_t, const int64_t*,
                                    const int64_t*, AtenTensorHandle*);
int32_t ptrn_torch_as_strided(AtenTensorHandle, const int64_t*, const int64_t*, AtenTensorHandle*);
int32_t ptrn_torch_get_data_ptr(AtenTensorHandle, void**);
int32_t ptrn_torch_get_storage_size(AtenTensorHandle, int64_t*);
int32_t ptrn_torch_get_storage_numel(AtenTensorHandle, int64_t*);
int32_t ptrn_torch_get_storage_offset(AtenTensorHandle, int64_t*);
int32_t ptrn_torch_get_dim(AtenTensorHandle, int64_t*);
int32_t ptrn_torch_get_numel(AtenTensorHandle, int64_t*);
int32_t ptrn_torch_get_sizes(AtenTensorHandle, int64_t**);
int32_t ptrn_torch_get_size(AtenTensorHandle, int64_t, int64_t*);
int32_t ptrn_torch_get_strides(AtenTensorHandle, int64_t**);
int32_t ptrn_torch_get_stride(AtenTensorHandle, int64_t, int64_t*);
int32_t ptrn_torch_get_dtype(AtenTensorHandle, int32_t*);
int32_t ptrn_torch_get_device_type(AtenTensorHandle, int32_t*);
int32_t ptrn_torch_get_device_index(AtenTensorHandle, int32_t*);
int32_t ptrn_torch_get_layout(AtenTensorHandle, int32_t*);
int32_t ptrn_torch_is_contiguous(AtenTensorHandle, bool*);
int32_t ptrn_torch_is_defined(AtenTensorHandle, bool*);
int32_t ptrn_torch_clone(AtenTensorHandle, AtenTensorHandle*);
int32_t ptrn_torch_clone_preserve_strides(AtenTensorHandle, AtenTensorHandle*);
int32_t ptrn_torch_copy_(AtenTensorHandle, AtenTensorHandle, int32_t);
int32_t ptrn_torch_tensor_copy_(AtenTensorHandle, AtenTensorHandle);
int32_t ptrn_torch_zero_(AtenTensorHandle);
void ptrn_torch_check(bool, const char*, const char*, uint32_t, const char*);
void ptrn_torch_warn(const char*, const char*, uint32_t, const char*);
bool ptrn_torch_grad_mode_is_enabled();
void ptrn_torch_grad_mode_set_enabled(bool);
size_t ptrn_torch_dtype_element_size(int32_t);
}
