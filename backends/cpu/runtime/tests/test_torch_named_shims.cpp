// Shims by torch's names, as code that is linked against libtorch's C functions calls them.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "torch/csrc/inductor/aoti_torch/c/shim.h"
#include "torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h"

namespace pteron::cpu {
namespace {

using List = std::vector<int64_t>;

const char* const kNames[] = {
#define AOTI_COMMON_SHIM(name, ...) "aoti_torch_" #name,
#define AOTI_CONSTANT_SHIM(name, ...) "aoti_torch_" #name,
#define AOTI_SHIM(name, ...) "aoti_torch_cpu_" #name,
#include "pteron/backends/aoti/shims/shims.inc"
#include "pteron/backends/cpu/runtime/shims/shims.inc"
#undef AOTI_CONSTANT_SHIM
};

// Deletes, by torch's name, what it was given.
class Tensors {
 public:
  ~Tensors() {
    for (AtenTensorHandle tensor : tensors_) {
      EXPECT_EQ(aoti_torch_delete_tensor_object(tensor), 0);
    }
  }

  // Of 32-bit floats; `values` are used in place. Its last arguments travel on the stack.
  AtenTensorHandle over(std::vector<float>* values, const List& sizes, const List& strides,
                        int64_t storage_offset = 0) {
    AtenTensorHandle tensor = nullptr;
    EXPECT_EQ(aoti_torch_create_tensor_from_blob_v2(
                  values->data(), static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                  storage_offset, aoti_torch_dtype_float32(), aoti_torch_device_type_cpu(), -1,
                  &tensor, 0, nullptr, 0),
              0);
    return keep(tensor);
  }

  AtenTensorHandle keep(AtenTensorHandle tensor) {
    tensors_.push_back(tensor);
    return tensor;
  }

 private:
  std::vector<AtenTensorHandle> tensors_;
};

TEST(TorchNamedShims, EveryNameOfTheListsIsExported) {
  EXPECT_GE(std::size(kNames), 150u);
  for (const char* name : kNames) {
    void* found = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(found, nullptr) << name;
    // A function of its own, which is found again by its address.
    Dl_info info;
    ASSERT_NE(dladdr(found, &info), 0) << name;
    EXPECT_STREQ(info.dli_sname, name);
  }
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "aoti_torch_no_such_shim"), nullptr);
}

// Those without arguments can all be called; their numbers differ within each kind.
TEST(TorchNamedShims, ANameLeadsToItsShim) {
  int called = 0;
  for (const std::string name : kNames) {
    bool is_number = name == "aoti_torch_grad_mode_is_enabled";
    for (const char* kind : {"device_type", "dtype", "layout", "memory_format"}) {
      is_number |= name.rfind(std::string("aoti_torch_") + kind + "_", 0) == 0;
    }
    if (!is_number || name == "aoti_torch_dtype_element_size") continue;
    const std::string private_name = "ptrn" + name.substr(4);
    auto* shim = reinterpret_cast<int32_t (*)()>(dlsym(RTLD_DEFAULT, private_name.c_str()));
    auto* torch_named = reinterpret_cast<int32_t (*)()>(dlsym(RTLD_DEFAULT, name.c_str()));
    ASSERT_TRUE(shim && torch_named) << name;
    EXPECT_EQ(torch_named(), shim()) << name;
    ++called;
  }
  EXPECT_GE(called, 35);
}

TEST(TorchNamedShims, ATensorLives) {
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1};
  AtenTensorHandle tensor = nullptr;
  ASSERT_EQ(aoti_torch_empty_strided(2, sizes, strides, aoti_torch_dtype_float32(),
                                     aoti_torch_device_type_cpu(), -1, &tensor),
            0);
  int64_t* found = nullptr;
  ASSERT_EQ(aoti_torch_get_sizes(tensor, &found), 0);
  EXPECT_EQ(List(found, found + 2), (List{2, 3}));
  void* data = nullptr;
  ASSERT_EQ(aoti_torch_get_data_ptr(tensor, &data), 0);
  std::memset(data, 0, 24);
  EXPECT_EQ(aoti_torch_delete_tensor_object(tensor), 0);
}

TEST(TorchNamedShims, ArgumentsOnTheStackArrive) {
  std::vector<float> values(8);
  Tensors tensors;
  AtenTensorHandle tensor = tensors.over(&values, {2, 3}, {3, 1}, 2);
  int64_t offset = 0;
  ASSERT_EQ(aoti_torch_get_storage_offset(tensor, &offset), 0);
  EXPECT_EQ(offset, 2);

  const int64_t size = 1;
  AtenTensorHandle refused = nullptr;
  // The last two arguments say that this is no strided tensor.
  EXPECT_NE(aoti_torch_create_tensor_from_blob_v2(values.data(), 1, &size, &size, 0,
                                                  aoti_torch_dtype_float32(), 0, -1, &refused, 0,
                                                  nullptr, 5),
            0);
  EXPECT_EQ(refused, nullptr);
}

TEST(TorchNamedShims, ArgumentsInFloatingPointRegistersArrive) {
  Tensors tensors;
  AtenTensorHandle scalar = nullptr;
  ASSERT_EQ(aoti_torch_scalar_to_tensor_float64(2.5, &scalar), 0);
  tensors.keep(scalar);
  double value = 0;
  ASSERT_EQ(aoti_torch_item_float64(scalar, &value), 0);
  EXPECT_EQ(value, 2.5);
}

TEST(TorchNamedShims, OperatorsCompute) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 0, 1, 3}, bias = {10, 20, 30, 40};
  std::vector<float> out(4);
  Tensors tensors;
  AtenTensorHandle x = tensors.over(&a, {2, 3}, {3, 1}), y = tensors.over(&b, {3, 2}, {2, 1});
  AtenTensorHandle z = tensors.over(&out, {2, 2}, {2, 1});
  ASSERT_EQ(aoti_torch_cpu_mm_out(z, x, y), 0);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 20, 18}));
  AtenTensorHandle w = tensors.over(&bias, {2, 2}, {2, 1});
  ASSERT_EQ(aoti_torch_cpu_addmm_out(z, w, x, y, 0.5, 2.0), 0);
  EXPECT_EQ(out, (std::vector<float>{21, 28, 55, 56}));
}

}  // namespace
}  // namespace pteron::cpu
