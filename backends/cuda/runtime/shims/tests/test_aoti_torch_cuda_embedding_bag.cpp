// Bags of embeddings against float64.
#include <gtest/gtest.h>

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

enum Mode { kSum = 0, kMean = 1, kMax = 2 };

// The function under test; both variants promise the same.
using Function = decltype(&ptrn_torch_cuda__embedding_bag);
const Function kFunctions[] = {&ptrn_torch_cuda__embedding_bag,
                               &ptrn_torch_cuda__embedding_bag_forward_only};

struct Bags {
  HostTensor table = HostTensor::random({50, 9}, 1);
  std::vector<double> indices{3, 49, 0, 3, 7, 7, 21, 8, 30, 3};
  std::vector<double> offsets{0, 4, 4, 9};  // the second bag is empty
  HostTensor weights = HostTensor::random({10}, 2);

  static HostTensor list(const std::vector<double>& numbers) {
    return {{static_cast<int64_t>(numbers.size())}, numbers};
  }
};

struct Results {
  HostTensor out, owners, sizes, max_rows;
};

Results reference(const Bags& b, const HostTensor& table, const HostTensor* weights, Mode mode,
                  bool include_last, int64_t padding) {
  const auto bags = static_cast<int64_t>(b.offsets.size()) - (include_last ? 1 : 0);
  const int64_t dim = table.sizes[1];
  Results r;
  r.out = HostTensor::zeros({bags, dim});
  r.owners = HostTensor::zeros({static_cast<int64_t>(b.indices.size())});
  r.sizes = HostTensor::zeros({static_cast<int64_t>(b.offsets.size())});
  r.max_rows =
      HostTensor::zeros(mode == kMax ? std::vector<int64_t>{bags, dim} : std::vector<int64_t>{0});
  for (int64_t bag = 0; bag < bags; ++bag) {
    const auto at = static_cast<size_t>(bag);
    const auto begin = static_cast<size_t>(b.offsets[at]);
    const size_t end =
        at + 1 < b.offsets.size() ? static_cast<size_t>(b.offsets[at + 1]) : b.indices.size();
    int64_t counted = 0;
    for (size_t i = begin; i < end; ++i) {
      const auto row = static_cast<int64_t>(b.indices[i]);
      r.owners.values[i] = static_cast<double>(bag);
      if (row == padding) continue;
      for (int64_t d = 0; d < dim; ++d) {
        double& to = r.out.values[static_cast<size_t>(bag * dim + d)];
        const double value = table.values[static_cast<size_t>(row * dim + d)];
        if (mode != kMax) {
          to += value * (weights ? weights->values[i] : 1.0);
        } else if (counted == 0 || value > to) {
          to = value;
          r.max_rows.values[static_cast<size_t>(bag * dim + d)] = static_cast<double>(row);
        }
      }
      ++counted;
    }
    r.sizes.values[at] = static_cast<double>(counted);
    for (int64_t d = 0; d < dim; ++d) {
      const auto element = static_cast<size_t>(bag * dim + d);
      if (mode == kMean && counted > 0) r.out.values[element] /= static_cast<double>(counted);
      if (mode == kMax && counted == 0) r.max_rows.values[element] = -1;
    }
  }
  return r;
}

TEST(EmbeddingBagContract, RefusesBadArguments) {
  TensorPtr table = pretend_cuda({50, 8}, DType::Float), ids = pretend_cuda({6}, DType::Long),
            offsets = pretend_cuda({2}, DType::Long), matrix = pretend_cuda({6, 1}, DType::Long),
            reals = pretend_cuda({6}, DType::Float), integers = pretend_cuda({50, 8}, DType::Int),
            short_weights = pretend_cuda({5}, DType::Float),
            elsewhere = pretend_cuda({6}, DType::Long, {}, 1);
  SlimTensor* results[4] = {};
  const auto call = [&](SlimTensor* t, SlimTensor* i, SlimTensor* o, int64_t mode,
                        SlimTensor* weights, SlimTensor** first) {
    return ptrn_torch_cuda__embedding_bag(t, i, o, 0, mode, 0, weights ? &weights : nullptr, 0, -1,
                                          first, results + 1, results + 2, results + 3);
  };
  SlimTensor** first = results;
  EXPECT_EQ(call(nullptr, ids.get(), offsets.get(), 0, nullptr, first), kAotiFailure);
  EXPECT_EQ(call(table.get(), matrix.get(), offsets.get(), 0, nullptr, first), kAotiFailure);
  EXPECT_NE(shim_error().find("indices int64[6, 1]"), std::string::npos) << shim_error();
  EXPECT_EQ(call(table.get(), reals.get(), offsets.get(), 0, nullptr, first), kAotiFailure);
  EXPECT_EQ(call(integers.get(), ids.get(), offsets.get(), 0, nullptr, first), kAotiFailure);
  EXPECT_EQ(call(table.get(), elsewhere.get(), offsets.get(), 0, nullptr, first), kAotiFailure);
  EXPECT_NE(shim_error().find("cuda:1"), std::string::npos) << shim_error();
  EXPECT_EQ(call(table.get(), ids.get(), offsets.get(), 3, nullptr, first), kAotiFailure);
  EXPECT_EQ(call(table.get(), ids.get(), offsets.get(), 0, short_weights.get(), first),
            kAotiFailure);
  EXPECT_EQ(call(table.get(), ids.get(), offsets.get(), 1, reals.get(), first), kAotiFailure);
  EXPECT_EQ(call(table.get(), ids.get(), offsets.get(), 0, nullptr, nullptr), kAotiFailure);
  for (SlimTensor* result : results) EXPECT_EQ(result, nullptr);
}

class EmbeddingBag : public ::testing::TestWithParam<int> {};

TEST_P(EmbeddingBag, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  const auto mode = static_cast<Mode>(GetParam());
  const Bags b;
  for (const Function function : kFunctions) {
    for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16}) {
      const HostTensor table = round_to(b.table, dtype), weights = round_to(b.weights, dtype);
      for (DType number : {DType::Long, DType::Int}) {
        for (const bool weighted : {false, true}) {
          if (weighted && mode != kSum) continue;
          for (const bool include_last : {false, true}) {
            for (const int64_t padding : {int64_t{-1}, int64_t{3}}) {
              TensorPtr t = to_device(table, dtype), w = to_device(weights, dtype),
                        i = to_device(Bags::list(b.indices), number),
                        o = to_device(Bags::list(b.offsets), DType::Long);
              SlimTensor* weight_handle = w.get();
              SlimTensor *out = nullptr, *owners = nullptr, *sizes = nullptr, *rows = nullptr;
              ASSERT_EQ(function(t.get(), i.get(), o.get(), 0, mode, 0,
                                 weighted ? &weight_handle : nullptr, include_last, padding, &out,
                                 &owners, &sizes, &rows),
                        kAotiSuccess)
                  << shim_error();
              TensorPtr r0(out), r1(owners), r2(sizes), r3(rows);
              const Results expected =
                  reference(b, table, weighted ? &weights : nullptr, mode, include_last, padding);
              EXPECT_TRUE(close_to(to_host(*r0), expected.out, gemm_tolerance(dtype, 16)));
              EXPECT_EQ(r1->dtype(), number);
              EXPECT_EQ(r2->dtype(), number);
              EXPECT_TRUE(equal_to(to_host(*r2), expected.sizes));
              EXPECT_TRUE(equal_to(to_host(*r3), expected.max_rows));
              if (!include_last) {
                EXPECT_TRUE(equal_to(to_host(*r1), expected.owners));
              }
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, EmbeddingBag, ::testing::Values(kSum, kMean, kMax));

TEST(EmbeddingBagLayouts, ATransposedTableAndNoIndices) {
  PTERON_REQUIRE_CUDA();
  const HostTensor table = HostTensor::random({5, 4}, 1);
  TensorPtr t = to_device(table, DType::Float, {1, 5}), i = to_device({{2}, {4, 1}}, DType::Long),
            o = to_device({{1}, {0}}, DType::Long), none = to_device({{0}, {}}, DType::Long);
  SlimTensor* r[4] = {};
  ASSERT_EQ(ptrn_torch_cuda__embedding_bag(t.get(), i.get(), o.get(), 0, kSum, 0, nullptr, 0, -1, r,
                                           r + 1, r + 2, r + 3),
            kAotiSuccess)
      << shim_error();
  TensorPtr out(r[0]), r1(r[1]), r2(r[2]), r3(r[3]);
  HostTensor expected = HostTensor::zeros({1, 4});
  for (size_t d = 0; d < 4; ++d) expected.values[d] = table.values[16 + d] + table.values[4 + d];
  EXPECT_TRUE(close_to(to_host(*out), expected, 1e-6));
  ASSERT_EQ(ptrn_torch_cuda__embedding_bag(t.get(), none.get(), o.get(), 0, kMean, 0, nullptr, 0,
                                           -1, r, r + 1, r + 2, r + 3),
            kAotiSuccess)
      << shim_error();
  TensorPtr zeros(r[0]), e1(r[1]), e2(r[2]), e3(r[3]);
  EXPECT_TRUE(equal_to(to_host(*zeros), HostTensor::zeros({1, 4})));
}

TEST(EmbeddingBagLayouts, SkipsIndicesOutsideOfTheTable) {
  PTERON_REQUIRE_CUDA();
  TensorPtr t = to_device({{2, 1}, {5, 7}}, DType::Float),
            i = to_device({{4}, {1, 2, -1, 0}}, DType::Long),
            o = to_device({{1}, {0}}, DType::Long);
  SlimTensor* r[4] = {};
  ASSERT_EQ(ptrn_torch_cuda__embedding_bag(t.get(), i.get(), o.get(), 0, kSum, 0, nullptr, 0, -1, r,
                                           r + 1, r + 2, r + 3),
            kAotiSuccess)
      << shim_error();
  TensorPtr out(r[0]), r1(r[1]), r2(r[2]), r3(r[3]);
  EXPECT_TRUE(equal_to(to_host(*out), {{1, 1}, {12}}));
}

}  // namespace
}  // namespace pteron::cuda::testing
