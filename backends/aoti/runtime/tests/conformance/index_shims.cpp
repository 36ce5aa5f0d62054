// Writing where indices say, on the device that joined.

#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"

namespace pteron::aoti::conformance {
namespace {

constexpr int32_t kInt32 = 3, kInt64 = 4, kBool = 11;

class IndexShims : public DeviceTest {};

TEST_F(IndexShims, PutsValuesWhereNumbersSay) {
  AtenTensorHandle self = numbers();
  const AtenTensorHandle indices[] = {nullptr, on_device<int64_t>({2, -3}, {2}, kInt64)};
  AtenTensorHandle values = on_device<float>({10, 20, 30, 40}, {2, 2}, kFloat);
  ASSERT_EQ(ptrn_torch_index_put_out(self, self, indices, 2, values, false), 0) << shim_error();
  EXPECT_EQ(contents(self), (Floats{20, 1, 10, 40, 4, 30}));
}

TEST_F(IndexShims, AddsWhereNumbersRepeat) {
  AtenTensorHandle self = numbers(), out = on_device<float>({9, 9, 9, 9, 9, 9}, {2, 3}, kFloat);
  const AtenTensorHandle indices[] = {on_device<int32_t>({1, 0, 1}, {3}, kInt32),
                                      on_device<int32_t>({0, 2, 0}, {3}, kInt32)};
  AtenTensorHandle values = on_device<float>({8}, {1}, kFloat);
  ASSERT_EQ(ptrn_torch_index_put_out(out, self, indices, 2, values, true), 0) << shim_error();
  EXPECT_EQ(contents(out), (Floats{0, 1, 10, 19, 4, 5}));
  EXPECT_EQ(contents(self), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST_F(IndexShims, PutsValuesWhereAMaskHolds) {
  AtenTensorHandle self = numbers();
  const AtenTensorHandle indices[] = {on_device<uint8_t>({1, 0, 0, 0, 1, 1}, {2, 3}, kBool)};
  AtenTensorHandle values = on_device<float>({10, 20, 30}, {3}, kFloat);
  ASSERT_EQ(ptrn_torch_index_put_out(self, self, indices, 1, values, false), 0) << shim_error();
  EXPECT_EQ(contents(self), (Floats{10, 1, 2, 3, 20, 30}));
}

TEST_F(IndexShims, LeavesOutAloneWhereSomethingIsWrong) {
  AtenTensorHandle self = numbers(), values = on_device<float>({8, 8}, {2}, kFloat);
  const AtenTensorHandle three[] = {nullptr, on_device<int64_t>({0, 1, 2}, {3}, kInt64)};
  EXPECT_NE(ptrn_torch_index_put_out(self, self, three, 2, values, false), 0);
  EXPECT_NE(shim_error().find("float32[2]"), std::string::npos) << shim_error();
  const AtenTensorHandle too_many[] = {three[1], three[1], three[1]};
  EXPECT_NE(ptrn_torch_index_put_out(self, self, too_many, 3, values, false), 0);
  const AtenTensorHandle real[] = {on_device<float>({0}, {1}, kFloat)};
  EXPECT_NE(ptrn_torch_index_put_out(self, self, real, 1, values, false), 0);
  EXPECT_NE(ptrn_torch_index_put_out(self, self, nullptr, 1, values, false), 0);
  EXPECT_NE(ptrn_torch_index_put_out(nullptr, self, three, 2, values, false), 0);
  EXPECT_NE(ptrn_torch_index_put_out(self, self, three, 2, nullptr, false), 0);
  EXPECT_EQ(contents(self), (Floats{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace pteron::aoti::conformance
