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

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
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

namespace pteron::aoti::conformance {

using List = std::vector<int64_t>;

// Makes tensors for a test on the device, deletes them after it, and skips it where there is none.
class DeviceTest : public testing::Test {
 protected:
  static constexpr int32_t kFloat = 6;

  void SetUp() override {
    device_ = test_device();
    if (!device_.available) GTEST_SKIP() << device_.why_not;
    clear_shim_error();
  }

  void TearDown() override {
    for (AtenTensorHandle handle : handles_) ptrn_torch_delete_tensor_object(handle);
  }

  static List row_major(const List& sizes) {
    List strides(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
    return strides;
  }

  AtenTensorHandle keep(AtenTensorHandle handle) {
    handles_.push_back(handle);
    return handle;
  }

  AtenTensorHandle empty(const List& sizes, const List& strides, int32_t dtype = kFloat) {
    AtenTensorHandle handle = nullptr;
    EXPECT_EQ(ptrn_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                       strides.data(), dtype, device_.type, device_.index, &handle),
              0)
        << shim_error();
    return keep(handle);
  }

  // Row-major, over memory that lives as long as it is used.
  AtenTensorHandle on_host(void* values, const List& sizes, int32_t dtype = kFloat) {
    AtenTensorHandle handle = nullptr;
    EXPECT_EQ(
        ptrn_torch_create_tensor_from_blob(values, static_cast<int64_t>(sizes.size()), sizes.data(),
                                           row_major(sizes).data(), 0, dtype, 0, -1, &handle),
        0)
        << shim_error();
    return keep(handle);
  }

  template <typename T>
  AtenTensorHandle on_device(std::vector<T> values, const List& sizes, int32_t dtype) {
    AtenTensorHandle handle = empty(sizes, row_major(sizes), dtype);
    EXPECT_EQ(ptrn_torch_copy_(handle, on_host(values.data(), sizes, dtype), 0), 0) << shim_error();
    return handle;
  }

  // A [2, 3] tensor of 0..5 on the device.
  AtenTensorHandle numbers() { return on_device<float>({0, 1, 2, 3, 4, 5}, {2, 3}, kFloat); }

  // Row-major.
  std::vector<float> contents(AtenTensorHandle tensor) {
    int64_t numel = 0, dim = 0;
    int64_t* sizes = nullptr;
    EXPECT_EQ(ptrn_torch_get_numel(tensor, &numel), 0);
    EXPECT_EQ(ptrn_torch_get_dim(tensor, &dim), 0);
    EXPECT_EQ(ptrn_torch_get_sizes(tensor, &sizes), 0);
    std::vector<float> result(static_cast<size_t>(numel), std::nanf(""));
    EXPECT_EQ(ptrn_torch_copy_(on_host(result.data(), List(sizes, sizes + dim)), tensor, 0), 0)
        << shim_error();
    return result;
  }

  TestDevice device_{};
  std::vector<AtenTensorHandle> handles_;
};

}  // namespace pteron::aoti::conformance
