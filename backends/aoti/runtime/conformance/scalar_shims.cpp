// Single numbers, into tensors and out of them.
#include "pteron/backends/aoti/runtime/conformance/conformance.h"

namespace pteron::aoti::conformance {
namespace {

class ScalarShims : public DeviceTest {
 protected:
  // The same number on the device; deletes `host`.
  AtenTensorHandle on_device(AtenTensorHandle host) {
    int32_t dtype = -1;
    EXPECT_EQ(ptrn_torch_get_dtype(host, &dtype), 0);
    AtenTensorHandle tensor = nullptr;
    EXPECT_EQ(
        ptrn_torch_empty_strided(0, nullptr, nullptr, dtype, device_.type, device_.index, &tensor),
        0)
        << shim_error();
    EXPECT_EQ(ptrn_torch_copy_(tensor, host, 0), 0) << shim_error();
    ptrn_torch_delete_tensor_object(host);
    return tensor;
  }
};

#define TEST_ROUND_TRIP(name, type, value)                                \
  TEST_F(ScalarShims, RoundTrip_##name) {                                 \
    AtenTensorHandle tensor = nullptr;                                    \
    ASSERT_EQ(ptrn_torch_scalar_to_tensor_##name(value, &tensor), 0);     \
    int64_t dim = -1;                                                     \
    EXPECT_EQ(ptrn_torch_get_dim(tensor, &dim), 0);                       \
    EXPECT_EQ(dim, 0);                                                    \
    tensor = on_device(tensor);                                           \
    type found{};                                                         \
    EXPECT_EQ(ptrn_torch_item_##name(tensor, &found), 0) << shim_error(); \
    EXPECT_EQ(found, static_cast<type>(value));                           \
    ptrn_torch_delete_tensor_object(tensor);                              \
  }
TEST_ROUND_TRIP(float32, float, -1.5f)
TEST_ROUND_TRIP(float64, double, 1e300)
TEST_ROUND_TRIP(uint8, uint8_t, 255)
TEST_ROUND_TRIP(uint16, uint16_t, 65535)
TEST_ROUND_TRIP(uint32, uint32_t, 4294967295u)
TEST_ROUND_TRIP(uint64, uint64_t, 18446744073709551615u)
TEST_ROUND_TRIP(int8, int8_t, -128)
TEST_ROUND_TRIP(int16, int16_t, -32768)
TEST_ROUND_TRIP(int32, int32_t, -2147483647)
TEST_ROUND_TRIP(int64, int64_t, -9007199254740993)
TEST_ROUND_TRIP(bool, bool, true)

TEST_F(ScalarShims, RoundTrip_complex64) {
  AtenTensorHandle tensor = nullptr;
  ASSERT_EQ(ptrn_torch_scalar_to_tensor_complex64({1.5f, -2.0f}, &tensor), 0);
  tensor = on_device(tensor);
  AbiComplexFloat found{};
  EXPECT_EQ(ptrn_torch_item_complex64(tensor, &found), 0);
  EXPECT_EQ(found.real, 1.5f);
  EXPECT_EQ(found.imag, -2.0f);
  ptrn_torch_delete_tensor_object(tensor);
  ASSERT_EQ(ptrn_torch_scalar_to_tensor_complex128({0.25, 3.0}, &tensor), 0);
  tensor = on_device(tensor);
  EXPECT_EQ(ptrn_torch_item_complex64(tensor, &found), 0);
  EXPECT_EQ(found.imag, 3.0f);
  ptrn_torch_delete_tensor_object(tensor);
}

TEST_F(ScalarShims, ItemsConvert) {
  AtenTensorHandle tensor = nullptr;
  ASSERT_EQ(ptrn_torch_scalar_to_tensor_float32(2.75f, &tensor), 0);
  tensor = on_device(tensor);
  int64_t integer = 0;
  bool flag = false;
  uint16_t half = 0, bfloat = 0;
  EXPECT_EQ(ptrn_torch_item_int64(tensor, &integer), 0);
  EXPECT_EQ(integer, 2);
  EXPECT_EQ(ptrn_torch_item_bool(tensor, &flag), 0);
  EXPECT_TRUE(flag);
  EXPECT_EQ(ptrn_torch_item_float16(tensor, &half), 0);
  EXPECT_EQ(half, 0x4180);
  EXPECT_EQ(ptrn_torch_item_bfloat16(tensor, &bfloat), 0);
  EXPECT_EQ(bfloat, 0x4030);
  ptrn_torch_delete_tensor_object(tensor);
}

TEST_F(ScalarShims, ItemOfSeveralElementsIsRefused) {
  AtenTensorHandle tensor = nullptr;
  const int64_t size = 2, stride = 1;
  ASSERT_EQ(ptrn_torch_empty_strided(1, &size, &stride, 6, device_.type, device_.index, &tensor),
            0);
  float found = 7;
  EXPECT_NE(ptrn_torch_item_float32(tensor, &found), 0);
  EXPECT_EQ(found, 7);
  EXPECT_NE(shim_error().find("float32[2]"), std::string::npos) << shim_error();
  ptrn_torch_delete_tensor_object(tensor);
}

}  // namespace
}  // namespace pteron::aoti::conformance
