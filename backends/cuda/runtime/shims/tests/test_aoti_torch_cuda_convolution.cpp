// convolution, by the library and without it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

struct Case {
  const char* name;
  std::vector<int64_t> input, weight;  // [n, c, ...], [o, c / groups, ...]
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

AOTITorchError convolution(const Case& c, const TensorPtr& x, const TensorPtr& w, SlimTensor* bias,
                           SlimTensor** out) {
  const auto dims = static_cast<int64_t>(c.stride.size());
  return ptrn_torch_cuda_convolution(x.get(), w.get(), bias ? &bias : nullptr, c.stride.data(),
                                     dims, c.padding.data(), dims, c.dilation.data(), dims,
                                     c.transposed, c.output_padding.data(), dims, c.groups, out);
}

// In float64 and by definition: every product is visited once and added where it belongs.
HostTensor reference(const Case& c, const HostTensor& x, const HostTensor& w) {
  const size_t dims = c.stride.size();
  const int64_t in_channels = x.sizes[1];
  const int64_t out_channels = c.transposed ? w.sizes[1] * c.groups : w.sizes[0];
  HostTensor out;
  out.sizes = {x.sizes[0], out_channels};
  for (size_t d = 0; d < dims; ++d) {
    const int64_t reach = c.dilation[d] * (w.sizes[d + 2] - 1) + 1, size = x.sizes[d + 2];
    out.sizes.push_back(c.transposed ? (size - 1) * c.stride[d] - 2 * c.padding[d] + reach +
                                           c.output_padding[d]
                                     : (size + 2 * c.padding[d] - reach) / c.stride[d] + 1);
  }
  out.values.assign(static_cast<size_t>(out.numel()), 0.0);
  // `small` is the side whose positions are strided over: out, or the input of a transposed one.
  const std::vector<int64_t>& small = c.transposed ? x.sizes : out.sizes;
  const std::vector<int64_t>& large = c.transposed ? out.sizes : x.sizes;
  int64_t positions = 1, taps = 1, large_space = 1;
  for (size_t d = 2; d < dims + 2; ++d) {
    positions *= small[d];
    taps *= w.sizes[d];
    large_space *= large[d];
  }
  const int64_t ins = in_channels / c.groups, outs = out_channels / c.groups;
  for (int64_t n = 0; n < x.sizes[0]; ++n) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t t = 0; t < taps; ++t) {
        int64_t rest_p = p, rest_t = t, position = 0, scale = 1;
        bool inside = true;
        for (size_t d = dims; d-- > 0;) {
          const int64_t at = rest_p % small[d + 2] * c.stride[d] - c.padding[d] +
                             rest_t % w.sizes[d + 2] * c.dilation[d];
          rest_p /= small[d + 2];
          rest_t /= w.sizes[d + 2];
          inside = inside && at >= 0 && at < large[d + 2];
          position += at * scale;
          scale *= large[d + 2];
        }
        if (!inside) continue;
        for (int64_t i = 0; i < in_channels; ++i) {
          for (int64_t o = i / ins * outs; o < (i / ins + 1) * outs; ++o) {
            const int64_t in_at = c.transposed ? p : position, out_at = c.transposed ? position : p;
            const int64_t weight_at =
                c.transposed ? (i * outs + o % outs) * taps + t : (o * ins + i % ins) * taps + t;
            const int64_t in_space = c.transposed ? positions : large_space;
            const int64_t out_space = c.transposed ? large_space : positions;
            out.values[static_cast<size_t>((n * out_channels + o) * out_space + out_at)] +=
                x.values[static_cast<size_t>((n * in_channels + i) * in_space + in_at)] *
                w.values[static_cast<size_t>(weight_at)];
          }
        }
      }
    }
  }
  return out;
}

std::vector<int64_t> channels_last(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = sizes[1];
  strides[1] = 1;
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  strides[0] = stride;
  return strides;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", {2, 3, 9, 8}, {4, 3, 3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {"padded_strided", {2, 3, 11, 10}, {8, 3, 3, 5}, {2, 3}, {1, 2}, {1, 1}, {0, 0}},
      {"dilated", {1, 2, 12, 12}, {2, 2, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {0, 0}},
      {"pointwise", {2, 16, 5, 5}, {8, 16, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
      {"grouped", {2, 6, 7, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 2},
      {"depthwise", {2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 8},
      {"line", {2, 4, 17}, {6, 4, 5}, {2}, {2}, {1}, {0}},
      {"volume", {1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}},
      {"transposed", {2, 3, 5, 6}, {3, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1, true},
      {"transposed_strided", {2, 4, 5, 6}, {4, 6, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, true},
      {"transposed_grouped", {1, 4, 5, 5}, {4, 3, 2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}, 2, true},
      {"transposed_line", {2, 4, 9}, {4, 3, 4}, {2}, {1}, {1}, {0}, 1, true},
  };
  return all;
}

// ---- contract: nothing of this needs a GPU ----

TEST(ConvolutionContract, RefusesNullHandles) {
  const Case& c = cases()[0];
  TensorPtr x = pretend_cuda(c.input, DType::Float), w = pretend_cuda(c.weight, DType::Float);
  SlimTensor* out = nullptr;
  EXPECT_EQ(convolution(c, nullptr, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("input is null"), std::string::npos) << shim_error();
  EXPECT_EQ(convolution(c, x, nullptr, nullptr, &out), kAotiFailure);
  EXPECT_EQ(convolution(c, x, w, nullptr, nullptr), kAotiFailure);
  EXPECT_EQ(out, nullptr);
}

TEST(ConvolutionContract, RefusesChannelsThatDoNotFit) {
  const Case& c = cases()[0];
  TensorPtr x = pretend_cuda({2, 5, 9, 8}, DType::Float), w = pretend_cuda(c.weight, DType::Float);
  SlimTensor* out = nullptr;
  EXPECT_EQ(convolution(c, x, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("input channels"), std::string::npos) << shim_error();
}

TEST(ConvolutionContract, RefusesMixedAndIntegerDtypes) {
  const Case& c = cases()[0];
  TensorPtr x = pretend_cuda(c.input, DType::Float), w = pretend_cuda(c.weight, DType::Half);
  SlimTensor* out = nullptr;
  EXPECT_EQ(convolution(c, x, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("one dtype"), std::string::npos) << shim_error();
  x = pretend_cuda(c.input, DType::Int);
  w = pretend_cuda(c.weight, DType::Int);
  EXPECT_EQ(convolution(c, x, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("int32"), std::string::npos) << shim_error();
}

TEST(ConvolutionContract, RefusesAnInputSmallerThanTheKernel) {
  const Case& c = cases()[0];
  TensorPtr x = pretend_cuda({2, 3, 2, 2}, DType::Float), w = pretend_cuda(c.weight, DType::Float);
  SlimTensor* out = nullptr;
  EXPECT_EQ(convolution(c, x, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("gives no output"), std::string::npos) << shim_error();
}

TEST(ConvolutionContract, RefusesListsOfAnotherLength) {
  Case c = cases()[0];
  TensorPtr x = pretend_cuda(c.input, DType::Float), w = pretend_cuda(c.weight, DType::Float);
  SlimTensor* out = nullptr;
  c.stride = {1, 1, 1};
  c.padding = c.dilation = c.output_padding = {1, 1, 1};
  EXPECT_EQ(convolution(c, x, w, nullptr, &out), kAotiFailure);
  EXPECT_NE(shim_error().find("stride has 3 values"), std::string::npos) << shim_error();
}

TEST(ConvolutionContract, RefusesABiasThatDoesNotFit) {
  const Case& c = cases()[0];
  TensorPtr x = pretend_cuda(c.input, DType::Float), w = pretend_cuda(c.weight, DType::Float);
  TensorPtr bias = pretend_cuda({3}, DType::Float);
  SlimTensor* out = nullptr;
  EXPECT_EQ(convolution(c, x, w, bias.get(), &out), kAotiFailure);
  EXPECT_NE(shim_error().find("bias of 4 elements"), std::string::npos) << shim_error();
}

// ---- numbers: against float64 on the CPU ----

class ConvolutionNumeric : public ::testing::TestWithParam<Case> {};

TEST_P(ConvolutionNumeric, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  const Case& c = GetParam();
  for (DType dtype : {DType::Float, DType::Half, DType::BFloat16, DType::Double}) {
    const HostTensor x = round_to(HostTensor::random(c.input, 1), dtype);
    const HostTensor w = round_to(HostTensor::random(c.weight, 2), dtype);
    const HostTensor expected = reference(c, x, w);
    for (const bool last : {false, true}) {
      if (last && c.input.size() != 4) continue;
      TensorPtr input = to_device(x, dtype, last ? channels_last(c.input) : std::vector<int64_t>{});
      TensorPtr weight = to_device(w, dtype);
      SlimTensor* out = nullptr;
      ASSERT_EQ(convolution(c, input, weight, nullptr, &out), kAotiSuccess) << shim_error();
      TensorPtr result(out);
      EXPECT_TRUE(close_to(to_host(*result), expected, gemm_tolerance(dtype, 64)))
          << slim::name_of(dtype) << (last ? " channels last" : "");
      const std::vector<int64_t> strides(result->strides().begin(), result->strides().end());
      EXPECT_EQ(strides, last ? channels_last(expected.sizes) : contiguous(expected.sizes));
    }
  }
}

// A channels-last weight makes the result channels-last; a channels-last input does, too, but not in
// one dimension.
TEST_P(ConvolutionNumeric, IsLaidOutAsTorchDoes) {
  PTERON_REQUIRE_CUDA();
  const Case& c = GetParam();
  const DType dtype = DType::Float;
  const HostTensor x = round_to(HostTensor::random(c.input, 1), dtype);
  const HostTensor w = round_to(HostTensor::random(c.weight, 2), dtype);
  if (c.weight[1] == 1) return;  // both layouts are the same
  const HostTensor expected = reference(c, x, w);
  for (const bool input_last : {false, true}) {
    for (const bool weight_last : {false, true}) {
      TensorPtr input =
          to_device(x, dtype, input_last ? channels_last(c.input) : contiguous(c.input));
      TensorPtr weight =
          to_device(w, dtype, weight_last ? channels_last(c.weight) : contiguous(c.weight));
      SlimTensor* out = nullptr;
      ASSERT_EQ(convolution(c, input, weight, nullptr, &out), kAotiSuccess) << shim_error();
      TensorPtr result(out);
      EXPECT_TRUE(close_to(to_host(*result), expected, gemm_tolerance(dtype, 64)));
      const std::vector<int64_t> strides(result->strides().begin(), result->strides().end());
      const bool last = weight_last || (input_last && c.input.size() != 3);
      EXPECT_EQ(strides, last ? channels_last(expected.sizes) : contiguous(expected.sizes))
          << input_last << weight_last;
    }
  }
}

TEST_P(ConvolutionNumeric, MatchesFloat64WithoutALibrary) {
  PTERON_REQUIRE_CUDA();
  const Case& c = GetParam();
  const size_t dims = c.stride.size();
  for (DType dtype : {DType::Float, DType::BFloat16}) {
    const HostTensor x = round_to(HostTensor::random(c.input, 1), dtype);
    const HostTensor w = round_to(HostTensor::random(c.weight, 2), dtype);
    const HostTensor expected = reference(c, x, w);
    for (const bool last : {false, true}) {
      if (last && c.input.size() != 4) continue;
      const auto layout = [&](const std::vector<int64_t>& sizes) {
        return last ? channels_last(sizes) : contiguous(sizes);
      };
      TensorPtr input = to_device(x, dtype, layout(c.input));
      TensorPtr weight = to_device(w, dtype, layout(c.weight));
      TensorPtr out = poisoned(expected.sizes, dtype, layout(expected.sizes));
      Convolution conv;
      conv.dtype = static_cast<ScalarType>(dtype);
      conv.dims = static_cast<int>(dims);
      conv.transposed = c.transposed;
      conv.channels_last = last;
      conv.batch = c.input[0];
      conv.in_channels = c.input[1];
      conv.out_channels = expected.sizes[1];
      conv.groups = c.groups;
      for (size_t d = 0; d < dims; ++d) {
        conv.in_sizes[d] = c.input[d + 2];
        conv.kernel[d] = c.weight[d + 2];
        conv.stride[d] = c.stride[d];
        conv.padding[d] = c.padding[d];
        conv.dilation[d] = c.dilation[d];
        conv.output_padding[d] = c.output_padding[d];
      }
      ASSERT_TRUE(check_and_size(&conv).ok());
      const Error error = convolve(conv, input->data(), weight->data(), out->data(), 0, nullptr,
                                   ConvolutionLibrary::kUnfold);
      ASSERT_TRUE(error.ok()) << error.message();
      EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 64)))
          << slim::name_of(dtype) << (last ? " channels last" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvolutionNumeric, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return info.param.name;
                         });

TEST(Convolution, AddsABias) {
  PTERON_REQUIRE_CUDA();
  const Case& c = cases()[0];
  const DType dtype = DType::Float;
  const HostTensor x = round_to(HostTensor::random(c.input, 1), dtype);
  const HostTensor w = round_to(HostTensor::random(c.weight, 2), dtype);
  const HostTensor b = round_to(HostTensor::random({4}, 3), dtype);
  HostTensor expected = reference(c, x, w);
  const int64_t space = expected.sizes[2] * expected.sizes[3];
  for (size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] += b.values[i / static_cast<size_t>(space) % 4];
  }
  for (const bool last : {false, true}) {
    TensorPtr input = to_device(x, dtype, last ? channels_last(c.input) : std::vector<int64_t>{});
    TensorPtr weight = to_device(w, dtype), bias = to_device(b, dtype);
    SlimTensor* out = nullptr;
    ASSERT_EQ(convolution(c, input, weight, bias.get(), &out), kAotiSuccess) << shim_error();
    TensorPtr result(out);
    EXPECT_TRUE(close_to(to_host(*result), expected, gemm_tolerance(dtype, 64)));
  }
}

TEST(Convolution, IsRunByTheLibraryWhereThereIsOne) {
  PTERON_REQUIRE_CUDA();
  Result<const Cudnn*> dnn = Cudnn::get();
  if (!dnn.ok()) GTEST_SKIP() << "this machine has no cuDNN: " << dnn.error().message();
  Convolution conv;
  conv.batch = conv.in_channels = conv.out_channels = 1;
  conv.in_sizes[0] = conv.in_sizes[1] = 4;
  conv.kernel[0] = conv.kernel[1] = 3;
  ASSERT_TRUE(check_and_size(&conv).ok());
  TensorPtr x = to_device(HostTensor::random({1, 1, 4, 4}, 1), DType::Float);
  TensorPtr w = to_device(HostTensor::random({1, 1, 3, 3}, 2), DType::Float);
  TensorPtr out = poisoned({1, 1, 2, 2}, DType::Float);
  const Error error =
      convolve(conv, x->data(), w->data(), out->data(), 0, nullptr, ConvolutionLibrary::kCudnn);
  EXPECT_TRUE(error.ok()) << error.message();
}

}  // namespace
}  // namespace pteron::cuda::testing
