// Creation, views, queries and contents of tensors on the device that joined.
#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"
#include "pteron/backends/aoti/shims/failed_check.h"

namespace pteron::aoti::conformance {
namespace {

constexpr int32_t kInt64 = 4, kInt8 = 1;

class BaseShims : public DeviceTest {};

TEST_F(BaseShims, EmptyStridedTellsWhatItIs) {
  AtenTensorHandle tensor = empty({2, 3}, {4, 1});
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_dim, tensor), 2);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_numel, tensor), 6);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_storage_size, tensor), 7 * 4);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_storage_numel, tensor), 7);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_storage_offset, tensor), 0);
  EXPECT_EQ(list(ptrn_torch_get_sizes, tensor), (List{2, 3}));
  EXPECT_EQ(list(ptrn_torch_get_strides, tensor), (List{4, 1}));
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_size, tensor, -1), 3);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_stride, tensor, 0), 4);
  EXPECT_EQ(ask<int32_t>(ptrn_torch_get_dtype, tensor), kFloat);
  EXPECT_EQ(ask<int32_t>(ptrn_torch_get_device_type, tensor), device_.type);
  EXPECT_EQ(ask<int32_t>(ptrn_torch_get_device_index, tensor), device_.index);
  EXPECT_EQ(ask<int32_t>(ptrn_torch_get_layout, tensor), 0);
  EXPECT_FALSE(ask<bool>(ptrn_torch_is_contiguous, tensor));
  EXPECT_TRUE(ask<bool>(ptrn_torch_is_defined, tensor));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ask<void*>(ptrn_torch_get_data_ptr, tensor)) % 64, 0u);
}

TEST_F(BaseShims, EmptyTensorsAndScalars) {
  EXPECT_TRUE(ask<bool>(ptrn_torch_is_contiguous, empty({0, 3}, {3, 1})));
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_numel, empty({}, {})), 1);
  EXPECT_EQ(ptrn_torch_zero_(empty({0}, {1})), 0);
}

TEST_F(BaseShims, CopiesThereAndBack) {
  EXPECT_EQ(contents(numbers()), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST_F(BaseShims, CopiesBetweenStridesAndBroadcasts) {
  AtenTensorHandle source = numbers();
  AtenTensorHandle columns = empty({2, 3}, {1, 2});
  EXPECT_EQ(ptrn_torch_copy_(columns, source, 0), 0) << shim_error();
  EXPECT_EQ(contents(columns), (Floats{0, 1, 2, 3, 4, 5}));
  AtenTensorHandle repeated = empty({2, 2, 3}, {6, 3, 1});
  EXPECT_EQ(ptrn_torch_tensor_copy_(source, repeated), 0) << shim_error();
  EXPECT_EQ(contents(repeated), (Floats{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST_F(BaseShims, CopyRefusesOtherSizes) {
  EXPECT_NE(ptrn_torch_copy_(empty({2, 3}, {3, 1}), empty({2, 4}, {4, 1}), 0), 0);
  EXPECT_NE(shim_error().find("float32[2, 4]"), std::string::npos) << shim_error();
}

TEST_F(BaseShims, ReinterpretCountsFromTheView) {
  AtenTensorHandle row = view(numbers(), {3}, {1}, 3), element = view(row, {1}, {1}, 1);
  EXPECT_EQ(contents(row), (Floats{3, 4, 5}));
  EXPECT_EQ(contents(element), (Floats{4}));
  EXPECT_EQ(ask<int64_t>(ptrn_torch_get_storage_offset, element), 4);
}

TEST_F(BaseShims, ViewsOutsideTheStorageAreRefused) {
  AtenTensorHandle base = numbers();
  const int64_t size = 3, stride = 1, huge = std::numeric_limits<int64_t>::max();
  auto* untouched = reinterpret_cast<AtenTensorHandle>(this);
  AtenTensorHandle result = untouched;
  EXPECT_NE(ptrn_torch__reinterpret_tensor(base, 1, &size, &stride, 4, &result), 0);
  EXPECT_NE(ptrn_torch__reinterpret_tensor(base, 1, &size, &stride, -1, &result), 0);
  EXPECT_NE(ptrn_torch__reinterpret_tensor(base, 1, &size, &huge, 0, &result), 0);
  EXPECT_NE(ptrn_torch__alloc_from_pool(base, 2, kFloat, 1, &size, &stride, &result), 0);
  EXPECT_NE(ptrn_torch__alloc_from_pool(base, 16, kFloat, 1, &size, &stride, &result), 0);
  EXPECT_EQ(result, untouched);
}

TEST_F(BaseShims, AllocFromPoolCountsBytes) {
  const int64_t size = 2, stride = 1;
  EXPECT_EQ(contents(made(ptrn_torch__alloc_from_pool, numbers(), 8, kFloat, 1, &size, &stride)),
            (Floats{2, 3}));
}

TEST_F(BaseShims, AsStrided) {
  const int64_t sizes[] = {3, 2}, strides[] = {1, 3};
  EXPECT_EQ(contents(made(ptrn_torch_as_strided, numbers(), sizes, strides)),
            (Floats{0, 3, 1, 4, 2, 5}));
}

TEST_F(BaseShims, HandlesShareStorageAndOutliveEachOther) {
  AtenTensorHandle base = numbers(), second = made(ptrn_torch_new_tensor_handle, base),
                   third = made(ptrn_torch_assign_tensors_out, base);
  EXPECT_EQ(ask<void*>(ptrn_torch_get_data_ptr, base), ask<void*>(ptrn_torch_get_data_ptr, second));
  EXPECT_EQ(ptrn_torch_delete_tensor_object(base), 0);
  handles_.erase(std::find(handles_.begin(), handles_.end(), base));
  EXPECT_EQ(contents(third), (Floats{0, 1, 2, 3, 4, 5}));
  AtenTensorHandle other = made(ptrn_torch_new_uninitialized_tensor);
  EXPECT_FALSE(ask<bool>(ptrn_torch_is_defined, other));
  EXPECT_EQ(ptrn_torch_assign_tensors(second, other), 0);
  EXPECT_EQ(contents(other), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST_F(BaseShims, CloneIsIndependent) {
  AtenTensorHandle base = numbers(), clone = made(ptrn_torch_clone, base);
  EXPECT_EQ(ptrn_torch_zero_(base), 0) << shim_error();
  EXPECT_EQ(contents(base), Floats(6, 0));
  EXPECT_EQ(contents(clone), (Floats{0, 1, 2, 3, 4, 5}));
  AtenTensorHandle strided = view(clone, {2, 2}, {3, 2}, 0),
                   copy = made(ptrn_torch_clone_preserve_strides, strided);
  EXPECT_EQ(list(ptrn_torch_get_strides, copy), (List{3, 2}));
  EXPECT_EQ(contents(copy), (Floats{0, 2, 3, 5}));
}

TEST_F(BaseShims, ZeroLeavesGapsAlone) {
  AtenTensorHandle base = numbers();
  EXPECT_EQ(ptrn_torch_zero_(view(base, {2}, {3}, 1)), 0) << shim_error();
  EXPECT_EQ(contents(base), (Floats{0, 0, 2, 3, 0, 5}));
}

TEST_F(BaseShims, EmptyStridedRefusesNonsense) {
  auto* untouched = reinterpret_cast<AtenTensorHandle>(this);
  AtenTensorHandle result = untouched;
  const auto make = [&](const List& sizes, const List& strides, int32_t dtype, int32_t type) {
    return ptrn_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                    strides.data(), dtype, type, device_.index, &result);
  };
  const int64_t huge = int64_t{1} << 62;
  EXPECT_NE(make({-1}, {1}, kFloat, device_.type), 0);
  EXPECT_NE(make({2}, {-1}, kFloat, device_.type), 0);
  EXPECT_NE(make({huge, huge}, {huge, 1}, kFloat, device_.type), 0);
  EXPECT_NE(make({huge}, {1}, kInt64, device_.type), 0);
  EXPECT_NE(make({2}, {1}, 99, device_.type), 0);
  EXPECT_NE(make({2}, {1}, kFloat, 77), 0);
  EXPECT_NE(make(List(17, 1), List(17, 1), kFloat, device_.type), 0);
  EXPECT_EQ(result, untouched);
  EXPECT_NE(
      ptrn_torch_empty_strided(1, nullptr, nullptr, kFloat, device_.type, device_.index, &result),
      0);
}

TEST_F(BaseShims, NullHandlesAreRefused) {
  int64_t number = 7;
  EXPECT_NE(ptrn_torch_get_numel(nullptr, &number), 0);
  EXPECT_EQ(number, 7);
  AtenTensorHandle result = nullptr;
  EXPECT_NE(ptrn_torch_clone(nullptr, &result), 0);
  EXPECT_NE(ptrn_torch_zero_(nullptr), 0);
  EXPECT_NE(ptrn_torch_get_dim(empty({1}, {1}), nullptr), 0);
  EXPECT_EQ(ptrn_torch_delete_tensor_object(nullptr), 0);
}

TEST_F(BaseShims, PinnedMemoryIsOnTheHost) {
  const int64_t size = 3, stride = 1;
  AtenTensorHandle pinned = made(ptrn_torch_empty_strided_pinned, 1, &size, &stride, kFloat, 0, -1);
  EXPECT_EQ(ask<int32_t>(ptrn_torch_get_device_type, pinned), 0);
  std::memset(ask<void*>(ptrn_torch_get_data_ptr, pinned), 1, 12);
}

TEST_F(BaseShims, BlobsAreUsedInPlace) {
  float value = 7;
  AtenTensorHandle blob =
      made(ptrn_torch_create_tensor_from_blob, &value, 0, nullptr, nullptr, 0, kFloat, 0, -1);
  EXPECT_EQ(ask<void*>(ptrn_torch_get_data_ptr, blob), &value);
}

TEST_F(BaseShims, BlobsOfOtherLayoutsAreRefused) {
  std::vector<float> values(4);
  const int64_t size = 4, stride = 1;
  const uint8_t opaque[] = {1};
  AtenTensorHandle result = nullptr;
  const auto blob = [&](int32_t layout, const uint8_t* metadata, int64_t nbytes) {
    return ptrn_torch_create_tensor_from_blob_v2(values.data(), 1, &size, &stride, 0, kFloat, 0, -1,
                                                 &result, layout, metadata, nbytes);
  };
  EXPECT_EQ(blob(0, nullptr, 0), 0);
  keep(result);
  EXPECT_NE(blob(3, opaque, 1), 0);
}

TEST_F(BaseShims, CheckThrowsOnlyWhenItFails) {
  EXPECT_NO_THROW(ptrn_torch_check(true, "f", "file", 1, "fine"));
  EXPECT_THROW(ptrn_torch_check(false, "f", "file", 1, "index out of bounds"), std::runtime_error);
  // The run that it happened in gets no more data.
  EXPECT_TRUE(run_has_failed());
  AtenTensorHandle tensor = numbers();
  void* data = nullptr;
  EXPECT_NE(ptrn_torch_get_data_ptr(tensor, &data), 0);
  const Error error = take_run_failure();
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_NE(error.message().find("index out of bounds (f, file:1)"), std::string::npos);
  EXPECT_EQ(ptrn_torch_get_data_ptr(tensor, &data), 0);
  ptrn_torch_warn("f", "file", 1, "said once");
}

TEST_F(BaseShims, GradModeIsRemembered) {
  const bool before = ptrn_torch_grad_mode_is_enabled();
  ptrn_torch_grad_mode_set_enabled(!before);
  EXPECT_EQ(ptrn_torch_grad_mode_is_enabled(), !before);
  ptrn_torch_grad_mode_set_enabled(before);
}

TEST_F(BaseShims, ElementSizes) {
  EXPECT_EQ(ptrn_torch_dtype_element_size(kFloat), 4u);
  EXPECT_EQ(ptrn_torch_dtype_element_size(kInt8), 1u);
  EXPECT_EQ(ptrn_torch_dtype_element_size(10), 16u);
  EXPECT_EQ(ptrn_torch_dtype_element_size(99), 0u);
}

}  // namespace
}  // namespace pteron::aoti::conformance
