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
#include "pteron/backends/aoti/shims/shims.h"

namespace pteron::aoti::conformance {

struct TestDevice {
  int32_t type;
  int32_t index;
  bool available;
  const char* why_not;  // shown when the suite is skipped
};

// Defined by each backend that joins.
TestDevice test_device();

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
