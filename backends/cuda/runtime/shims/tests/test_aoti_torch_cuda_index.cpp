// index and index_put against a walk over the result on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;
using List = std::vector<int64_t>;

// What the C ABI wants: pointers to handles, null for a whole dimension.
class Indices {
 public:
  // `hosts` without sizes stand for whole dimensions.
  Indices(const std::vector<std::optional<HostTensor>>& hosts, DType dtype) {
    for (const auto& host : hosts) {
      tensors_.push_back(host ? to_device(*host, dtype) : nullptr);
    }
    collect();
  }
  explicit Indices(std::vector<TensorPtr> tensors) : tensors_(std::move(tensors)) { collect(); }

  const AtenTensorHandle** data() { return pointers_.data(); }
  int64_t size() const { return static_cast<int64_t>(pointers_.size()); }

 private:
  void collect() {
    for (const TensorPtr& tensor : tensors_) handles_.push_back(tensor.get());
    for (const AtenTensorHandle& handle : handles_) pointers_.push_back(handle ? &handle : nullptr);
  }

  std::vector<TensorPtr> tensors_;
  std::vector<AtenTensorHandle> handles_;
  std::vector<const AtenTensorHandle*> pointers_;
};

// One way to index x of (4, 5, 6), the sizes it names, and the offset into x that belongs to each
// element of the row-major result.
struct Case {
  std::vector<std::optional<HostTensor>> indices;
  List sizes;
  std::vector<int64_t> offsets;
};

int64_t offset(int64_t i, int64_t j, int64_t k) { return (i * 5 + j) * 6 + k; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const HostTensor rows{{3}, {2, -1, 0}}, columns{{2, 1}, {1, 4}}, last{{3}, {5, 0, -6}};
  const int64_t row[] = {2, 3, 0}, column[] = {1, 4}, end[] = {5, 0, 0};
  // x[rows]
  Case c{{rows}, {3, 5, 6}, {}};
  for (int64_t a : row) {
    for (int64_t j = 0; j < 5; ++j) {
      for (int64_t k = 0; k < 6; ++k) c.offsets.push_back(offset(a, j, k));
    }
  }
  all.push_back(c);
  // x[:, columns, last]: neighbours stay where they are.
  c = {{std::nullopt, columns, last}, {4, 2, 3}, {}};
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t b : column) {
      for (int64_t e : end) c.offsets.push_back(offset(i, b, e));
    }
  }
  all.push_back(c);
  // x[rows, :, last]: others come to the front.
  c = {{rows, std::nullopt, last}, {3, 5}, {}};
  for (int n = 0; n < 3; ++n) {
    for (int64_t j = 0; j < 5; ++j) c.offsets.push_back(offset(row[n], j, end[n]));
  }
  all.push_back(c);
  // x[i, j, k] for numbers without dimensions.
  all.push_back(
      {{HostTensor{{}, {1}}, HostTensor{{}, {-2}}, HostTensor{{}, {3}}}, {}, {offset(1, 3, 3)}});
  // Nothing at all.
  all.push_back({{HostTensor{{0}, {}}}, {0, 5, 6}, {}});
  return all;
}

HostTensor picked(const HostTensor& x, const Case& c) {
  HostTensor out{c.sizes, {}};
  for (int64_t at : c.offsets) out.values.push_back(x.values[static_cast<size_t>(at)]);
  return out;
}

HostTensor integers(List sizes, uint64_t seed) {
  HostTensor host = HostTensor::random(std::move(sizes), seed);
  for (double& value : host.values) value = std::round(10 * value);
  return host;
}

TEST(IndexContract, RefusesBadArguments) {
  TensorPtr x = pretend_cuda({4, 5}, DType::Float), numbers = pretend_cuda({3}, DType::Long),
            two = pretend_cuda({2}, DType::Long), reals = pretend_cuda({3}, DType::Float),
            mask = pretend_cuda({3}, DType::Bool),
            elsewhere = pretend_cuda({3}, DType::Long, {}, 1);
  SlimTensor* out = nullptr;
  const auto index = [&](SlimTensor* self, std::vector<SlimTensor*> list, SlimTensor** ret) {
    std::vector<const AtenTensorHandle*> pointers;
    for (const AtenTensorHandle& handle : list) pointers.push_back(handle ? &handle : nullptr);
    return ptrn_torch_cuda_index_Tensor(self, pointers.data(),
                                        static_cast<int64_t>(pointers.size()), ret);
  };
  EXPECT_EQ(index(nullptr, {numbers.get()}, &out), kAotiFailure);
  EXPECT_EQ(index(x.get(), {numbers.get()}, nullptr), kAotiFailure);
  EXPECT_EQ(index(x.get(), {nullptr, nullptr}, &out), kAotiFailure);
  EXPECT_EQ(index(x.get(), {reals.get()}, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("float32[3]"), std::string::npos) << shim_error();
  EXPECT_EQ(index(x.get(), {mask.get()}, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("mask bool[3]"), std::string::npos) << shim_error();
  EXPECT_EQ(index(x.get(), {numbers.get(), two.get()}, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("do not broadcast"), std::string::npos) << shim_error();
  EXPECT_EQ(index(x.get(), {two.get(), two.get(), two.get()}, &out), kAotiFailure);
  EXPECT_EQ(index(x.get(), {elsewhere.get()}, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("cuda:1"), std::string::npos) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_index_Tensor(x.get(), nullptr, 1, &out), kAotiFailure);
  EXPECT_EQ(out, nullptr);
}

TEST(IndexContract, PutRefusesValuesThatDoNotFit) {
  TensorPtr x = pretend_cuda({4, 5}, DType::Float), numbers = pretend_cuda({3}, DType::Long),
            wide = pretend_cuda({4}, DType::Float), other = pretend_cuda({3, 5}, DType::Half);
  const AtenTensorHandle handle = numbers.get();
  const AtenTensorHandle* list[] = {&handle};
  SlimTensor* out = nullptr;
  EXPECT_EQ(ptrn_torch_cuda_index_put(x.get(), list, 1, wide.get(), 0, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("[3, 5]"), std::string::npos) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_index_put(x.get(), list, 1, other.get(), 0, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_index_put(x.get(), list, 1, nullptr, 0, &out), kAotiFailure);
  EXPECT_EQ(out, nullptr);
}

TEST(Index, PicksWhatTheIndicesName) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x = integers({4, 5, 6}, 1);
  for (const Case& c : cases()) {
    for (DType dtype : {DType::Char, DType::Half, DType::Float, DType::Double}) {
      for (DType number : {DType::Long, DType::Int}) {
        for (const List& strides : {List{}, List{1, 4, 20}, List{64, 12, 2}}) {
          TensorPtr input = to_device(x, dtype, strides);
          Indices indices(c.indices, number);
          SlimTensor* out = nullptr;
          ASSERT_EQ(ptrn_torch_cuda_index_Tensor(input.get(), indices.data(), indices.size(), &out),
                    kAotiSuccess)
              << shim_error();
          TensorPtr result(out);
          EXPECT_TRUE(equal_to(to_host(*result), picked(x, c)));
        }
      }
    }
  }
}

TEST(Index, TakesMasks) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x = integers({4, 5, 6}, 1);
  HostTensor mask = HostTensor::zeros({4, 5}), expected{{0, 6}, {}};
  for (size_t i = 0; i < 20; i += 3) {
    mask.values[i] = 1;
    ++expected.sizes[0];
    for (size_t k = 0; k < 6; ++k) expected.values.push_back(x.values[i * 6 + k]);
  }
  for (DType dtype : {DType::Bool, DType::Byte}) {
    for (const List& strides : {List{}, List{1, 4}}) {
      TensorPtr input = to_device(x, DType::Float);
      std::vector<TensorPtr> list;
      list.push_back(to_device(mask, dtype, strides));
      Indices indices(std::move(list));
      SlimTensor* out = nullptr;
      ASSERT_EQ(ptrn_torch_cuda_index_Tensor(input.get(), indices.data(), 1, &out), kAotiSuccess)
          << shim_error();
      TensorPtr result(out);
      EXPECT_TRUE(equal_to(to_host(*result), expected));
    }
  }
}

TEST(Index, AnIndexOutsideReadsZeroAndWritesNothing) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x{{3}, {1, 2, 3}};
  TensorPtr input = to_device(x, DType::Float),
            values = to_device({{4}, {10, 20, 30, 40}}, DType::Float);
  Indices indices({HostTensor{{4}, {2, 3, -4, 0}}}, DType::Long);
  SlimTensor* out = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_index_Tensor(input.get(), indices.data(), 1, &out), kAotiSuccess);
  TensorPtr read(out);
  EXPECT_TRUE(equal_to(to_host(*read), {{4}, {3, 0, 0, 1}}));
  ASSERT_EQ(ptrn_torch_cuda_index_put(input.get(), indices.data(), 1, values.get(), 0, &out),
            kAotiSuccess);
  TensorPtr put(out);
  EXPECT_TRUE(equal_to(to_host(*put), {{3}, {40, 2, 10}}));
}

TEST(IndexPut, WritesAndAddsWithoutTouchingItsInput) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x = integers({4, 5, 6}, 1);
  for (const Case& c : cases()) {
    const HostTensor values = integers(c.sizes, 2);
    for (const bool accumulate : {false, true}) {
      // The first and third case name no element twice; the others only add.
      std::vector<int64_t> seen(120, 0);
      bool repeats = false;
      for (int64_t at : c.offsets) repeats |= seen[static_cast<size_t>(at)]++ > 0;
      if (repeats && !accumulate) continue;
      HostTensor expected = x;
      for (size_t i = 0; i < c.offsets.size(); ++i) {
        double& to = expected.values[static_cast<size_t>(c.offsets[i])];
        to = values.values[i] + (accumulate ? to : 0.0);
      }
      for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16, DType::Long,
                          DType::Int, DType::Short}) {
        for (const List& strides : {List{}, List{1, 4, 20}}) {
          TensorPtr input = to_device(x, dtype, strides), given = to_device(values, dtype);
          Indices indices(c.indices, DType::Long);
          SlimTensor* out = nullptr;
          ASSERT_EQ(ptrn_torch_cuda_index_put(input.get(), indices.data(), indices.size(),
                                              given.get(), accumulate, &out),
                    kAotiSuccess)
              << shim_error();
          TensorPtr result(out);
          EXPECT_TRUE(equal_to(to_host(*result), expected)) << slim::name_of(dtype);
          EXPECT_TRUE(equal_to(to_host(*input), x));
        }
      }
    }
  }
}

TEST(IndexPut, AddsUpWhatRepeats) {
  PTERON_REQUIRE_CUDA();
  const int64_t n = 5000;
  HostTensor zeros = HostTensor::zeros({3}), numbers = HostTensor::zeros({n}),
             ones = HostTensor::zeros({});
  ones.values[0] = 1;
  HostTensor expected = zeros;
  for (int64_t i = 0; i < n; ++i) {
    numbers.values[static_cast<size_t>(i)] = static_cast<double>(i * i % 3);
    expected.values[static_cast<size_t>(i * i % 3)] += 1;
  }
  for (DType dtype : {DType::Float, DType::Double, DType::Int, DType::Long, DType::Short}) {
    TensorPtr input = to_device(zeros, dtype), one = to_device(ones, dtype);
    Indices indices({numbers}, DType::Long);
    SlimTensor* out = nullptr;
    ASSERT_EQ(ptrn_torch_cuda_index_put(input.get(), indices.data(), 1, one.get(), 1, &out),
              kAotiSuccess)
        << shim_error();
    TensorPtr result(out);
    EXPECT_TRUE(equal_to(to_host(*result), expected)) << slim::name_of(dtype);
  }
  TensorPtr flags = to_device(zeros, DType::Bool), yes = to_device(ones, DType::Bool);
  Indices indices({HostTensor{{2}, {1, 1}}}, DType::Long);
  SlimTensor* out = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_index_put(flags.get(), indices.data(), 1, yes.get(), 1, &out),
            kAotiSuccess)
      << shim_error();
  TensorPtr result(out);
  EXPECT_TRUE(equal_to(to_host(*result), {{3}, {0, 1, 0}}));
}

}  // namespace
}  // namespace pteron::cuda::testing
