// Single numbers, into tensors and out of them, and the constants of the C ABI.
#include "pteron/backends/aoti/runtime/conformance/conformance.h"

#define ITEM_AND_SCALAR(name, type)                                   \
  extern "C" int32_t ptrn_torch_item_##name(AtenTensorHandle, type*); \
  extern "C" int32_t ptrn_torch_scalar_to_tensor_##name(type, AtenTensorHandle*);
ITEM_AND_SCALAR(float32, float)
ITEM_AND_SCALAR(float64, double)
ITEM_AND_SCALAR(uint8, uint8_t)
ITEM_AND_SCALAR(uint16, uint16_t)
ITEM_AND_SCALAR(uint32, uint32_t)
ITEM_AND_SCALAR(uint64, uint64_t)
ITEM_AND_SCALAR(int8, int8_t)
ITEM_AND_SCALAR(int16, int16_t)
ITEM_AND_SCALAR(int32, int32_t)
ITEM_AND_SCALAR(int64, int64_t)
ITEM_AND_SCALAR(bool, bool)
#undef ITEM_AND_SCALAR

struct ComplexFloat {
  float real, imag;
};
struct ComplexDouble {
  double real, imag;
};
extern "C" {
int32_t ptrn_torch_item_float16(AtenTensorHandle, uint16_t*);
int32_t ptrn_torch_item_bfloat16(AtenTensorHandle, uint16_t*);
int32_t ptrn_torch_item_complex64(AtenTensorHandle, ComplexFloat*);
int32_t ptrn_torch_scalar_to_tensor_complex64(ComplexFloat, AtenTensorHandle*);
int32_t ptrn_torch_scalar_to_tensor_complex128(ComplexDouble, AtenTensorHandle*);
}

#define CONSTANT(name) extern "C" int32_t ptrn_torch_##name();
// clang-format off: one a line
#define CONSTANTS(X) \
  X(device_type_cpu, 0) \
  X(device_type_cuda, 1) \
  X(device_type_xpu, 12) \
  X(device_type_mps, 13) \
  X(device_type_meta, 14) \
  X(device_type_privateuse1, 20) \
  X(dtype_uint8, 0) \
  X(dtype_int8, 1) \
  X(dtype_int16, 2) \
  X(dtype_int32, 3) \
  X(dtype_int64, 4) \
  X(dtype_float16, 5) \
  X(dtype_float32, 6) \
  X(dtype_float64, 7) \
  X(dtype_complex32, 8) \
  X(dtype_complex64, 9) \
  X(dtype_complex128, 10) \
  X(dtype_bool, 11) \
  X(dtype_bfloat16, 15) \
  X(dtype_float8_e5m2, 23) \
  X(dtype_float8_e4m3fn, 24) \
  X(dtype_float8_e5m2fnuz, 25) \
  X(dtype_float8_e4m3fnuz, 26) \
  X(dtype_uint16, 27) \
  X(dtype_uint32, 28) \
  X(dtype_uint64, 29) \
  X(dtype_float8_e8m0fnu, 44) \
  X(dtype_float4_e2m1fn_x2, 45) \
  X(layout_strided, 0) \
  X(layout_sparse_coo, 1) \
  X(layout_sparse_csr, 2) \
  X(layout__mkldnn, 3) \
  X(layout_sparse_csc, 4) \
  X(layout_sparse_bsr, 5) \
  X(layout_sparse_bsc, 6) \
  X(layout_jagged, 7) \
  X(memory_format_contiguous_format, 0) \
  X(memory_format_preserve_format, 1) \
  X(memory_format_channels_last, 2) \
  X(memory_format_channels_last_3d, 3)
// clang-format on
#define DECLARE(name, number) CONSTANT(name)
CONSTANTS(DECLARE)
#undef DECLARE

namespace pteron::aoti::conformance {
namespace {

TEST(ConstantShims, HaveTheNumbersOfTheCAbi) {
#define EXPECT_CONSTANT(name, number) EXPECT_EQ(ptrn_torch_##name(), number) << #name;
  CONSTANTS(EXPECT_CONSTANT)
#undef EXPECT_CONSTANT
}

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
  ComplexFloat found{};
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
