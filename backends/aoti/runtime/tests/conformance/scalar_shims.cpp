// Single numbers, into tensors and out of them.
#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"

namespace pteron::aoti::conformance {
namespace {

class ScalarShims : public DeviceTest {
 protected:
  // The number that a shim makes a tensor of, on the device.
  template <typename Shim, typename T>
  AtenTensorHandle scalar(Shim* shim, T value) {
    AtenTensorHandle host = made(shim, value);
    EXPECT_EQ(ask<int64_t>(ptrn_torch_get_dim, host), 0);
    AtenTensorHandle tensor = empty({}, {}, ask<int32_t>(ptrn_torch_get_dtype, host));
    EXPECT_EQ(ptrn_torch_copy_(tensor, host, 0), 0) << shim_error();
    return tensor;
  }
};

#define TEST_ROUND_TRIP(name, type, value)                                             \
  TEST_F(ScalarShims, RoundTrip_##name) {                                              \
    AtenTensorHandle tensor = scalar(ptrn_torch_scalar_to_tensor_##name, type{value}); \
    EXPECT_EQ(ask<type>(ptrn_torch_item_##name, tensor), type{value});                 \
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
  AtenTensorHandle tensor =
      scalar(ptrn_torch_scalar_to_tensor_complex64, AbiComplexFloat{1.5f, -2.0f});
  const auto found = ask<AbiComplexFloat>(ptrn_torch_item_complex64, tensor);
  EXPECT_EQ(found.real, 1.5f);
  EXPECT_EQ(found.imag, -2.0f);
  tensor = scalar(ptrn_torch_scalar_to_tensor_complex128, AbiComplexDouble{0.25, 3.0});
  EXPECT_EQ(ask<AbiComplexFloat>(ptrn_torch_item_complex64, tensor).imag, 3.0f);
}

TEST_F(ScalarShims, ItemsConvert) {
  AtenTensorHandle tensor = scalar(ptrn_torch_scalar_to_tensor_float32, 2.75f);
  EXPECT_EQ(ask<int64_t>(ptrn_torch_item_int64, tensor), 2);
  EXPECT_TRUE(ask<bool>(ptrn_torch_item_bool, tensor));
  EXPECT_EQ(ask<uint16_t>(ptrn_torch_item_float16, tensor), 0x4180);
  EXPECT_EQ(ask<uint16_t>(ptrn_torch_item_bfloat16, tensor), 0x4030);
}

TEST_F(ScalarShims, ItemOfSeveralElementsIsRefused) {
  float found = 7;
  EXPECT_NE(ptrn_torch_item_float32(empty({2}, {1}), &found), 0);
  EXPECT_EQ(found, 7);
  EXPECT_NE(shim_error().find("float32[2]"), std::string::npos) << shim_error();
}

}  // namespace
}  // namespace pteron::aoti::conformance
