// Poolings against float64: sliding and adaptive, averages and maxima, of images and volumes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
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
using Three = std::array<int64_t, 3>;

// Depth, height, width; unused ones as for a size of 1.
struct Windows {
  Three kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false;
};

int64_t out_size(int64_t in, const Windows& w, size_t d) {
  const int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
  const int64_t room = in + 2 * w.padding[d] - reach;
  int64_t out = (room + (w.ceil_mode ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
  if (w.ceil_mode && (out - 1) * w.stride[d] >= in + w.padding[d]) --out;
  return out;
}

// Positions of one window in one dimension, the inside ones; `padded` counts the padding's too.
List positions(int64_t at, int64_t in, const Windows& w, size_t d, int64_t* padded) {
  List found;
  *padded = 0;
  for (int64_t k = 0; k < w.kernel[d]; ++k) {
    const int64_t p = at * w.stride[d] - w.padding[d] + k * w.dilation[d];
    if (p >= 0 && p < in) found.push_back(p);
    if (p < in + w.padding[d]) ++*padded;
  }
  return found;
}

List adaptive_positions(int64_t at, int64_t in, int64_t out) {
  List found;
  for (int64_t p = at * in / out; p * out < (at + 1) * in; ++p) found.push_back(p);
  return found;
}

struct Pooled {
  HostTensor average, maximum, indices;
};

// By definition: x of (planes, depth, height, width). `out` for adaptive pooling, else computed.
Pooled reference(const HostTensor& x, const Windows& w, const Three* out, bool count_padding,
                 int64_t divisor) {
  Three sizes{};
  for (size_t d = 0; d < 3; ++d) sizes[d] = out ? (*out)[d] : out_size(x.sizes[d + 1], w, d);
  const List shape{x.sizes[0], sizes[0], sizes[1], sizes[2]};
  Pooled result{HostTensor::zeros(shape), HostTensor::zeros(shape), HostTensor::zeros(shape)};
  size_t element = 0;
  for (int64_t plane = 0; plane < x.sizes[0]; ++plane) {
    for (int64_t i = 0; i < sizes[0] * sizes[1] * sizes[2]; ++i, ++element) {
      const Three at{i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
      std::array<List, 3> window;
      int64_t padded = 1, n = 1;
      for (size_t d = 0; d < 3; ++d) {
        int64_t all = 0;
        window[d] = out ? adaptive_positions(at[d], x.sizes[d + 1], sizes[d])
                        : positions(at[d], x.sizes[d + 1], w, d, &all);
        padded *= all;
        n *= static_cast<int64_t>(window[d].size());
      }
      double sum = 0, best = -std::numeric_limits<double>::infinity();
      int64_t winner = 0;
      for (int64_t z : window[0]) {
        for (int64_t y : window[1]) {
          for (int64_t c : window[2]) {
            const int64_t number = (z * x.sizes[2] + y) * x.sizes[3] + c;
            const double value = x.values[static_cast<size_t>(
                plane * x.sizes[1] * x.sizes[2] * x.sizes[3] + number)];
            sum += value;
            if (value > best) best = value, winner = number;
          }
        }
      }
      const int64_t count = divisor ? divisor : count_padding && !out ? padded : n;
      result.average.values[element] = n ? sum / static_cast<double>(count) : 0.0;
      result.maximum.values[element] = best;
      result.indices.values[element] = static_cast<double>(winner);
    }
  }
  return result;
}

HostTensor reshaped(HostTensor host, List sizes) {
  host.sizes = std::move(sizes);
  return host;
}

List last(const Three& values, int64_t dims) { return List(values.end() - dims, values.end()); }

// Both of (batch 2, channels 3, ...).
struct Case {
  int64_t dims;
  Three in;
  Windows windows;
};

const Case kCases[] = {
    {2, {1, 12, 15}, {{1, 3, 3}, {1, 3, 3}, {0, 0, 0}, {1, 1, 1}, false}},
    {2, {1, 13, 17}, {{1, 7, 5}, {1, 2, 3}, {0, 3, 2}, {1, 1, 1}, true}},
    {2, {1, 9, 40}, {{1, 1, 33}, {1, 1, 4}, {0, 0, 16}, {1, 1, 1}, false}},
    {3, {5, 6, 7}, {{2, 3, 3}, {1, 2, 2}, {1, 1, 0}, {1, 1, 1}, true}},
};

List image_sizes(const Case& c) {
  List sizes{2, 3};
  const List spatial = last(c.in, c.dims);
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return sizes;
}

List channels_last_strides(const List& sizes) {
  List strides(sizes.size());
  strides[1] = 1;
  int64_t stride = sizes[1];
  for (size_t d = sizes.size(); d-- > 2; stride *= sizes[d]) strides[d] = stride;
  strides[0] = stride;
  return strides;
}

AOTITorchError average(const Case& c, SlimTensor* x, bool count_padding, int64_t* divisor,
                       SlimTensor** out) {
  const List kernel = last(c.windows.kernel, c.dims), stride = last(c.windows.stride, c.dims),
             padding = last(c.windows.padding, c.dims);
  auto* function = c.dims == 2 ? &ptrn_torch_cuda_avg_pool2d : &ptrn_torch_cuda_avg_pool3d;
  return function(x, kernel.data(), c.dims, stride.data(), c.dims, padding.data(), c.dims,
                  c.windows.ceil_mode, count_padding, divisor, out);
}

AOTITorchError maximum(const Case& c, SlimTensor* x, SlimTensor** values, SlimTensor** indices) {
  const List kernel = last(c.windows.kernel, c.dims), stride = last(c.windows.stride, c.dims),
             padding = last(c.windows.padding, c.dims), dilation = last(c.windows.dilation, c.dims);
  auto* function = c.dims == 2 ? &ptrn_torch_cuda_max_pool2d_with_indices
                               : &ptrn_torch_cuda_max_pool3d_with_indices;
  return function(x, kernel.data(), c.dims, stride.data(), c.dims, padding.data(), c.dims,
                  dilation.data(), c.dims, c.windows.ceil_mode, values, indices);
}

TEST(PoolingContract, RefusesBadArguments) {
  TensorPtr x = pretend_cuda({2, 3, 8, 8}, DType::Float), flat = pretend_cuda({8, 8}, DType::Float),
            integers = pretend_cuda({2, 3, 8, 8}, DType::Int);
  const HostTensor numbers = HostTensor::zeros({1, 2, 2});
  SlimTensor *out = nullptr, *argmax = nullptr;
  const int64_t two[] = {2, 2}, many[] = {2, 2, 2}, nine[] = {9, 9}, zero[] = {0, 0};
  int64_t no_divisor = 0;
  const auto average = [&](SlimTensor* self, const int64_t* kernel, int64_t length,
                           const int64_t* padding, int64_t* divisor) {
    return ptrn_torch_cuda_avg_pool2d(self, kernel, length, nullptr, 0, padding, 2, 0, 1, divisor,
                                      &out);
  };
  EXPECT_EQ(average(nullptr, two, 2, zero, nullptr), kAotiFailure);
  EXPECT_EQ(average(flat.get(), two, 2, zero, nullptr), kAotiFailure);
  EXPECT_NE(shim_error().find("float32[8, 8]"), std::string::npos) << shim_error();
  EXPECT_EQ(average(integers.get(), two, 2, zero, nullptr), kAotiFailure);
  EXPECT_NE(shim_error().find("int32[2, 3, 8, 8]"), std::string::npos) << shim_error();
  EXPECT_EQ(average(x.get(), many, 3, zero, nullptr), kAotiFailure);
  EXPECT_EQ(average(x.get(), nine, 2, zero, nullptr), kAotiFailure);
  EXPECT_EQ(average(x.get(), zero, 2, zero, nullptr), kAotiFailure);
  EXPECT_EQ(average(x.get(), two, 2, two, nullptr), kAotiFailure);  // more than half a window
  EXPECT_EQ(average(x.get(), two, 2, zero, &no_divisor), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_max_pool2d_with_indices(x.get(), two, 2, nullptr, 0, zero, 2, two, 2, 0,
                                                    nullptr, &argmax),
            kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_max_pool2d_with_indices(x.get(), two, 2, nullptr, 0, zero, 2, two, 2, 0,
                                                    &out, nullptr),
            kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda__adaptive_avg_pool2d(x.get(), many, 3, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda__adaptive_avg_pool3d(flat.get(), many, 3, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_adaptive_max_pool2d(x.get(), nullptr, 2, &out, &argmax), kAotiFailure);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(argmax, nullptr);
}

TEST(PoolingContract, RefusesATensorOnTheHost) {
  Result<TensorPtr> host = slim::make_tensor(List{2, 3, 8, 8}, DType::Float);
  ASSERT_TRUE(host.ok());
  SlimTensor* out = nullptr;
  const int64_t two[] = {2, 2};
  EXPECT_EQ(ptrn_torch_cuda__adaptive_avg_pool2d(host->get(), two, 2, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("on the CPU"), std::string::npos) << shim_error();
}

TEST(Pooling, AveragesMatchFloat64) {
  PTERON_REQUIRE_CUDA();
  int64_t seven = 7;
  for (const Case& c : kCases) {
    const List sizes = image_sizes(c);
    for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16}) {
      const HostTensor x = round_to(HostTensor::random(sizes, 1), dtype);
      const HostTensor planes = reshaped(x, {6, c.in[0], c.in[1], c.in[2]});
      for (const bool channels_last : {false, true}) {
        TensorPtr input =
            to_device(x, dtype, channels_last ? channels_last_strides(sizes) : List{});
        for (const bool count_padding : {false, true}) {
          for (int64_t* divisor : {static_cast<int64_t*>(nullptr), &seven}) {
            SlimTensor* out = nullptr;
            ASSERT_EQ(average(c, input.get(), count_padding, divisor, &out), kAotiSuccess)
                << shim_error();
            TensorPtr result(out);
            HostTensor expected =
                reference(planes, c.windows, nullptr, count_padding, divisor ? 7 : 0).average;
            const HostTensor found = to_host(*result);
            expected.sizes = found.sizes;
            EXPECT_TRUE(close_to(found, expected, gemm_tolerance(dtype, 64)));
            EXPECT_EQ(result->stride(1) == 1, channels_last && c.dims == 2);
          }
        }
      }
    }
  }
}

TEST(Pooling, MaximaAndTheirPlaces) {
  PTERON_REQUIRE_CUDA();
  for (Case c : kCases) {
    const List sizes = image_sizes(c);
    for (const int64_t dilation : {1, 2}) {
      if (dilation == 2 && c.windows.ceil_mode) continue;
      for (size_t d = static_cast<size_t>(3 - c.dims); d < 3; ++d) {
        // Dilated windows must still fit.
        const bool fits = 2 * (c.windows.kernel[d] - 1) < c.in[d];
        c.windows.dilation[d] = fits ? dilation : 1;
      }
      for (DType dtype : {DType::Float, DType::BFloat16, DType::Half, DType::Double}) {
        const HostTensor x = round_to(HostTensor::random(sizes, 2), dtype);
        Pooled expected =
            reference(reshaped(x, {6, c.in[0], c.in[1], c.in[2]}), c.windows, nullptr, false, 0);
        for (const bool channels_last : {false, true}) {
          TensorPtr input =
              to_device(x, dtype, channels_last ? channels_last_strides(sizes) : List{});
          SlimTensor *values = nullptr, *indices = nullptr;
          ASSERT_EQ(maximum(c, input.get(), &values, &indices), kAotiSuccess) << shim_error();
          TensorPtr v(values), i(indices);
          const HostTensor found = to_host(*v);
          expected.maximum.sizes = expected.indices.sizes = found.sizes;
          EXPECT_TRUE(equal_to(found, expected.maximum));
          EXPECT_TRUE(equal_to(to_host(*i), expected.indices));
          EXPECT_EQ(i->dtype(), DType::Long);
          EXPECT_EQ(v->stride(1) == 1, channels_last);
        }
      }
    }
  }
}

TEST(Pooling, AdaptiveOnesMatchFloat64) {
  PTERON_REQUIRE_CUDA();
  const Three in{7, 12, 15}, out{3, 5, 15};
  for (const int64_t dims : {2, 3}) {
    const Case c{dims, {dims == 3 ? in[0] : 1, in[1], in[2]}, {}};
    const Three wanted{dims == 3 ? out[0] : 1, out[1], out[2]};
    const List sizes = image_sizes(c), output_size = last(wanted, dims);
    const HostTensor x = HostTensor::random(sizes, 3);
    for (DType dtype : {DType::Float, DType::Half}) {
      const HostTensor rounded = round_to(x, dtype);
      Pooled expected =
          reference(reshaped(rounded, {6, c.in[0], c.in[1], c.in[2]}), {}, &wanted, false, 0);
      TensorPtr input = to_device(rounded, dtype);
      SlimTensor *mean = nullptr, *values = nullptr, *indices = nullptr;
      auto* average =
          dims == 2 ? &ptrn_torch_cuda__adaptive_avg_pool2d : &ptrn_torch_cuda__adaptive_avg_pool3d;
      auto* maximum =
          dims == 2 ? &ptrn_torch_cuda_adaptive_max_pool2d : &ptrn_torch_cuda_adaptive_max_pool3d;
      ASSERT_EQ(average(input.get(), output_size.data(), dims, &mean), kAotiSuccess)
          << shim_error();
      ASSERT_EQ(maximum(input.get(), output_size.data(), dims, &values, &indices), kAotiSuccess)
          << shim_error();
      TensorPtr m(mean), v(values), i(indices);
      const HostTensor found = to_host(*m);
      for (HostTensor* host : {&expected.average, &expected.maximum, &expected.indices}) {
        host->sizes = found.sizes;
      }
      EXPECT_TRUE(close_to(found, expected.average, gemm_tolerance(dtype, 64)));
      EXPECT_TRUE(equal_to(to_host(*v), expected.maximum));
      EXPECT_TRUE(equal_to(to_host(*i), expected.indices));
    }
  }
}

TEST(Pooling, NanWins) {
  PTERON_REQUIRE_CUDA();
  HostTensor x = HostTensor::zeros({1, 2, 4});
  x.values[5] = std::nan("");
  TensorPtr input = to_device(x, DType::Float);
  SlimTensor *values = nullptr, *indices = nullptr;
  const int64_t two[] = {2, 2}, zero[] = {0, 0}, one[] = {1, 1};
  ASSERT_EQ(ptrn_torch_cuda_max_pool2d_with_indices(input.get(), two, 2, nullptr, 0, zero, 2, one,
                                                    2, 0, &values, &indices),
            kAotiSuccess)
      << shim_error();
  TensorPtr v(values), i(indices);
  EXPECT_TRUE(equal_to(to_host(*v), {{1, 1, 2}, {std::nan(""), 0}}));
  EXPECT_TRUE(equal_to(to_host(*i), {{1, 1, 2}, {5, 2}}));
}

TEST(Pooling, AnEmptyBatchGivesAnEmptyResult) {
  PTERON_REQUIRE_CUDA();
  TensorPtr input = poisoned({0, 3, 8, 8}, DType::Float);
  SlimTensor* out = nullptr;
  const int64_t two[] = {2, 2};
  ASSERT_EQ(ptrn_torch_cuda__adaptive_avg_pool2d(input.get(), two, 2, &out), kAotiSuccess)
      << shim_error();
  TensorPtr result(out);
  EXPECT_EQ(result->numel(), 0);
  EXPECT_EQ(result->size(2), 2);
}

}  // namespace
}  // namespace pteron::cuda::testing
