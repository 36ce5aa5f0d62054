// The suite of common shims that every device passes.
//
//   // One file of a backend, in its tests:
//   namespace pteron::aoti::conformance {
//   TestDevice test_device() {
//     return {/*type=*/1, /*index=*/0, /*available=*/has_gpu(), "no GPU"};
//   }
//   }  // namespace pteron::aoti::conformance
//
// and a cc_test of it over //backends/aoti/runtime/tests/conformance and the backend's library. Contents
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
using Floats = std::vector<float>;

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

  // What a shim writes to its last argument.
  template <typename T, typename Shim, typename... Arguments>
  static T ask(Shim* shim, Arguments... arguments) {
    T answer{};
    EXPECT_EQ(shim(arguments..., &answer), kAotiSuccess) << shim_error();
    return answer;
  }

  // A tensor that a shim gives.
  template <typename Shim, typename... Arguments>
  AtenTensorHandle made(Shim* shim, Arguments... arguments) {
    return keep(ask<AtenTensorHandle>(shim, arguments...));
  }

  // Its sizes or its strides.
  template <typename Shim>
  static List list(Shim* shim, AtenTensorHandle tensor) {
    const auto* const numbers = ask<int64_t*>(shim, tensor);
    return List(numbers, numbers + ask<int64_t>(ptrn_torch_get_dim, tensor));
  }

  AtenTensorHandle empty(const List& sizes, const List& strides, int32_t dtype = kFloat) {
    return made(ptrn_torch_empty_strided, static_cast<int64_t>(sizes.size()), sizes.data(),
                strides.data(), dtype, device_.type, device_.index);
  }

  // Elements of `base`, counted from where it begins.
  AtenTensorHandle view(AtenTensorHandle base, const List& sizes, const List& strides,
                        int64_t offset) {
    return made(ptrn_torch__reinterpret_tensor, base, static_cast<int64_t>(sizes.size()),
                sizes.data(), strides.data(), offset);
  }

  // Row-major, over memory that lives as long as it is used.
  AtenTensorHandle on_host(void* values, const List& sizes, int32_t dtype = kFloat) {
    return made(ptrn_torch_create_tensor_from_blob, values, static_cast<int64_t>(sizes.size()),
                sizes.data(), row_major(sizes).data(), 0, dtype, 0, -1);
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
  Floats contents(AtenTensorHandle tensor) {
    Floats result(static_cast<size_t>(ask<int64_t>(ptrn_torch_get_numel, tensor)), std::nanf(""));
    AtenTensorHandle host = on_host(result.data(), list(ptrn_torch_get_sizes, tensor));
    EXPECT_EQ(ptrn_torch_copy_(host, tensor, 0), 0) << shim_error();
    return result;
  }

  TestDevice device_{};
  std::vector<AtenTensorHandle> handles_;
};

}  // namespace pteron::aoti::conformance
