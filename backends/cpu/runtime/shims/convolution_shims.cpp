// Convolution of all kinds.
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/convolution.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

struct Lists {
  Span<const int64_t> stride, padding, dilation, output_padding;
};

// A list of one number holds for every dimension.
Error spread(Span<const int64_t> list, size_t dims, const char* name, int64_t least,
             std::array<int64_t, 3>* values) {
  PTERON_CHECK_OR_RETURN(list.size() == dims || list.size() == 1, Error::InvalidArgument,
                         "found %s of %zu numbers, expected 1 or %zu", name, list.size(), dims);
  for (size_t d = 0; d < dims; ++d) {
    const int64_t value = list[list.size() == 1 ? 0 : d];
    PTERON_CHECK_OR_RETURN(value >= least && value <= INT32_MAX, Error::InvalidArgument,
                           "found %s %lld, expected %lld to %d", name,
                           static_cast<long long>(value), static_cast<long long>(least), INT32_MAX);
    (*values)[3 - dims + d] = value;
  }
  return Error::Ok;
}

Error check_tensors(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle bias) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(input, "input"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(weight, "weight"));
  if (bias) PTERON_RETURN_IF_ERROR(check_cpu_tensor(bias, "bias"));
  PTERON_CHECK_OR_RETURN(
      input->dtype() == weight->dtype() && (!bias || bias->dtype() == input->dtype()),
      Error::InvalidType, "found input %s, weight %s, bias %s, expected one dtype",
      input->describe().c_str(), weight->describe().c_str(),
      bias ? bias->describe().c_str() : "none");
  PTERON_CHECK_OR_RETURN(input->dim() == weight->dim() && input->dim() >= 3 && input->dim() <= 5,
                         Error::InvalidArgument,
                         "found input %s, weight %s, expected 3 to 5 dimensions each",
                         input->describe().c_str(), weight->describe().c_str());
  return Error::Ok;
}

// Reads the shape; `sizes` receives those of the output.
Error read_shape(const SlimTensor& input, const SlimTensor& weight, AtenTensorHandle bias,
                 const Lists& lists, bool transposed, int64_t groups, ConvolutionShape* s,
                 std::vector<int64_t>* sizes) {
  const size_t dims = input.dim() - 2;
  std::array<int64_t, 3> output_padding{0, 0, 0};
  PTERON_RETURN_IF_ERROR(spread(lists.stride, dims, "stride", 1, &s->stride));
  PTERON_RETURN_IF_ERROR(spread(lists.padding, dims, "padding", 0, &s->padding));
  PTERON_RETURN_IF_ERROR(spread(lists.dilation, dims, "dilation", 1, &s->dilation));
  if (transposed) {
    PTERON_RETURN_IF_ERROR(
        spread(lists.output_padding, dims, "output_padding", 0, &output_padding));
  }
  s->batch = input.size(0);
  s->groups = groups;
  s->in_channels = input.size(1);
  const int64_t first = weight.size(0), second = weight.size(1);
  const bool fits =
      groups >= 1 && (transposed ? first == s->in_channels && first % groups == 0
                                 : first % groups == 0 && second * groups == s->in_channels);
  PTERON_CHECK_OR_RETURN(
      fits, Error::InvalidArgument,
      "found input %s, weight %s, %lld groups%s, expected channels that fit the groups",
      input.describe().c_str(), weight.describe().c_str(), static_cast<long long>(groups),
      transposed ? ", transposed" : "");
  s->out_channels = transposed ? second * groups : first;
  PTERON_CHECK_OR_RETURN(!bias || (bias->dim() == 1 && bias->size(0) == s->out_channels),
                         Error::InvalidArgument,
                         "found bias %s, expected %lld numbers in one dimension",
                         bias->describe().c_str(), static_cast<long long>(s->out_channels));
  sizes->assign({s->batch, s->out_channels});
  for (size_t d = 0; d < dims; ++d) {
    const size_t k = 3 - dims + d;
    s->in[k] = input.size(2 + d);
    s->kernel[k] = weight.size(2 + d);
    const int64_t reach = s->dilation[k] * (s->kernel[k] - 1) + 1;
    s->out[k] = transposed
                    ? (s->in[k] - 1) * s->stride[k] - 2 * s->padding[k] + reach + output_padding[k]
                : s->in[k] + 2 * s->padding[k] < reach
                    ? -1
                    : (s->in[k] + 2 * s->padding[k] - reach) / s->stride[k] + 1;
    PTERON_CHECK_OR_RETURN(
        s->kernel[k] >= 1 && s->in[k] >= 1 && s->out[k] >= 1, Error::InvalidArgument,
        "found input %s, weight %s, expected an output of at least 1 in dimension %zu",
        input.describe().c_str(), weight.describe().c_str(), 2 + d);
    sizes->push_back(s->out[k]);
  }
  return Error::Ok;
}

// Of a tensor of 3 to 5 dimensions, over the last two.
ImageStrides image_strides(const SlimTensor& tensor) {
  const size_t n = tensor.dim();
  return {tensor.stride(0), tensor.stride(1), n > 3 ? tensor.stride(n - 2) : 0,
          tensor.stride(n - 1)};
}

// Without gaps, row-major or channels-last, as the tensor is or as a row-major copy.
Result<TensorPtr> dense_weight(const SlimTensor& weight) {
  const ImageStrides strides = image_strides(weight);
  const bool last = slim::is_channels_last(weight) && strides.channel == 1 &&
                    strides.outer * weight.size(0) == weight.numel();
  if (last) return slim::make_alias(weight);
  return slim::contiguous_tensor(weight);
}

Result<TensorPtr> direct_convolution(const ConvolutionShape& shape, const SlimTensor& input,
                                     const SlimTensor& weight, const SlimTensor* bias,
                                     const std::vector<int64_t>& sizes, bool channels_last) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr taps, dense_weight(weight));
  TensorPtr offsets;
  if (bias) {
    PTERON_ASSIGN_OR_RETURN(offsets, slim::contiguous_tensor(*bias));
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, channels_last ? make_channels_last(sizes, input.dtype())
                                                       : slim::make_tensor(sizes, input.dtype()));
  convolve_direct(shape,
                  {input.data_as<const float>(), image_strides(input), taps->data_as<const float>(),
                   image_strides(*taps), offsets ? offsets->data_as<const float>() : nullptr,
                   out->data_as<float>(), image_strides(*out)});
  return out;
}

Error convolution(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle bias,
                  const Lists& lists, bool transposed, int64_t groups, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_RETURN_IF_ERROR(check_tensors(input, weight, bias));
  ConvolutionShape shape;
  std::vector<int64_t> sizes;
  PTERON_RETURN_IF_ERROR(
      read_shape(*input, *weight, bias, lists, transposed, groups, &shape, &sizes));

  const bool channels_last = slim::is_convolution_channels_last(*input, *weight);
  if (input->dtype() == DType::Float && !transposed &&
      is_convolved_directly(shape, channels_last)) {
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            direct_convolution(shape, *input, *weight, bias, sizes, channels_last));
    *ret = out.release();
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, slim::contiguous_tensor(*input));
  PTERON_ASSIGN_OR_RETURN(TensorPtr taps, slim::contiguous_tensor(*weight));
  TensorPtr offsets;
  if (bias) {
    PTERON_ASSIGN_OR_RETURN(offsets, slim::contiguous_tensor(*bias));
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, slim::make_tensor(sizes, input->dtype()));
  bool done = false;
  PTERON_DISPATCH_FLOATING(input->dtype(), T, {
    const T* offset_data = offsets ? offsets->data_as<const T>() : nullptr;
    (transposed ? convolve_transposed<T> : convolve<T>)(shape, in->data_as<const T>(),
                                                        taps->data_as<const T>(), offset_data,
                                                        out->data_as<T>());
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(input);
  if (channels_last) {
    PTERON_ASSIGN_OR_RETURN(TensorPtr last, make_channels_last(sizes, input->dtype()));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*last, *out));
    out = std::move(last);
  }
  *ret = out.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_convolution)
(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
 int64_t stride_length, const int64_t* padding, int64_t padding_length, const int64_t* dilation,
 int64_t dilation_length, int32_t transposed, const int64_t* output_padding,
 int64_t output_padding_length, int64_t groups, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_convolution", [&]() -> Error {
    Lists lists;
    PTERON_ASSIGN_OR_RETURN(lists.stride, aoti::list_argument(stride, stride_length, "stride"));
    PTERON_ASSIGN_OR_RETURN(lists.padding, aoti::list_argument(padding, padding_length, "padding"));
    PTERON_ASSIGN_OR_RETURN(lists.dilation,
                            aoti::list_argument(dilation, dilation_length, "dilation"));
    PTERON_ASSIGN_OR_RETURN(
        lists.output_padding,
        aoti::list_argument(output_padding, output_padding_length, "output_padding"));
    return convolution(input, weight, optional(bias), lists, transposed != 0, groups, ret);
  });
}

}  // namespace pteron::cpu
