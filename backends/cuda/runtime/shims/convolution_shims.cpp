// convolution: all of torch's, of one to three spatial dimensions, transposed ones too.
//
// The result is laid out as torch lays it out, since the code that follows was generated for that:
// channels last (2-d only) if the input or the weight is, contiguous otherwise.
#include <algorithm>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using slim::SlimTensor;
using slim::TensorPtr;

void packed_strides(Span<const int64_t> sizes, bool channels_last, int64_t* strides) {
  (channels_last ? slim::channels_last_strides : slim::contiguous_strides)(sizes, strides);
}

// `tensor` itself if it is packed in the wanted order, else a copy that is.
Result<TensorPtr> packed(const SlimTensor& tensor, bool channels_last) {
  int64_t strides[slim::kMaxDims];
  packed_strides(tensor.sizes(), channels_last, strides);
  bool is_packed = true;
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != strides[i]) is_packed = false;
  }
  if (is_packed || tensor.numel() == 0) return slim::make_alias(tensor);
  PTERON_ASSIGN_OR_RETURN(
      TensorPtr copy, slim::make_tensor(tensor.sizes(), Span<const int64_t>(strides, tensor.dim()),
                                        tensor.dtype(), tensor.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor, true));
  return copy;
}

// One value for each spatial dimension; a list of one stands for all.
Error read_list(const int64_t* values, int64_t length, const char* name, int dims, int64_t* out) {
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> list,
                          aoti::list_argument(values, length, name));
  PTERON_CHECK_OR_RETURN(list.size() == 1 || list.size() == static_cast<size_t>(dims),
                         Error::InvalidArgument, "%s has %zu values, expected %d", name,
                         list.size(), dims);
  for (int i = 0; i < dims; ++i) out[i] = list[list.size() == 1 ? 0 : static_cast<size_t>(i)];
  return Error::Ok;
}

Error check_operands(const SlimTensor* input, const SlimTensor* weight, const SlimTensor* bias,
                     bool transposed, int64_t groups) {
  PTERON_RETURN_IF_ERROR(check_tensors({{"input", input}, {"weight", weight}}));
  const auto all = [&] { return describe({{"input", input}, {"weight", weight}}); };
  PTERON_CHECK_OR_RETURN(input->dim() >= 3 && input->dim() <= 5 && weight->dim() == input->dim(),
                         Error::InvalidArgument,
                         "found %s, expected both of 3 to 5 dimensions, batch included",
                         all().c_str());
  PTERON_CHECK_OR_RETURN(input->dtype() == weight->dtype(), Error::InvalidType,
                         "found %s, expected one dtype", all().c_str());
  PTERON_CHECK_OR_RETURN(groups >= 1 && input->size(1) % groups == 0, Error::InvalidArgument,
                         "found %s in %lld groups", all().c_str(), static_cast<long long>(groups));
  const int64_t expected = transposed ? input->size(1) : input->size(1) / groups;
  PTERON_CHECK_OR_RETURN(weight->size(transposed ? 0 : 1) == expected, Error::InvalidArgument,
                         "found %s, expected a weight for %lld input channels in %lld groups",
                         all().c_str(), static_cast<long long>(input->size(1)),
                         static_cast<long long>(groups));
  if (bias == nullptr) return Error::Ok;
  PTERON_RETURN_IF_ERROR(check_tensors({{"input", input}, {"bias", bias}}));
  const int64_t out_channels = transposed ? weight->size(1) * groups : weight->size(0);
  PTERON_CHECK_OR_RETURN(
      bias->dim() == 1 && bias->size(0) == out_channels && bias->dtype() == input->dtype(),
      Error::InvalidArgument, "found %s, expected a bias of %lld elements and the same dtype",
      describe({{"input", input}, {"bias", bias}}).c_str(), static_cast<long long>(out_channels));
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_convolution)
(AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
 int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
 int64_t dilation_len_, int32_t transposed, const int64_t* output_padding,
 int64_t output_padding_len_, int64_t groups, AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_convolution", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
    const SlimTensor* addend = bias ? *bias : nullptr;
    PTERON_RETURN_IF_ERROR(check_operands(input, weight, addend, transposed != 0, groups));
    Convolution conv;
    conv.dtype = static_cast<ScalarType>(input->dtype());
    conv.dims = static_cast<int>(input->dim()) - 2;
    conv.transposed = transposed != 0;
    conv.groups = groups;
    conv.batch = input->size(0);
    conv.in_channels = input->size(1);
    conv.out_channels = conv.transposed ? weight->size(1) * groups : weight->size(0);
    for (int i = 0; i < conv.dims; ++i) {
      conv.in_sizes[i] = input->size(static_cast<size_t>(i) + 2);
      conv.kernel[i] = weight->size(static_cast<size_t>(i) + 2);
    }
    PTERON_RETURN_IF_ERROR(read_list(stride, stride_len_, "stride", conv.dims, conv.stride));
    PTERON_RETURN_IF_ERROR(read_list(padding, padding_len_, "padding", conv.dims, conv.padding));
    PTERON_RETURN_IF_ERROR(
        read_list(dilation, dilation_len_, "dilation", conv.dims, conv.dilation));
    if (conv.transposed) {
      PTERON_RETURN_IF_ERROR(read_list(output_padding, output_padding_len_, "output_padding",
                                       conv.dims, conv.output_padding));
    }
    PTERON_RETURN_IF_ERROR(check_and_size(&conv));
    const bool channels_last = slim::is_convolution_channels_last(*input, *weight);
    conv.channels_last = channels_last && conv.dims == 2;
    if (const ExecutionResources* scope = ExecutionScope::current()) {
      conv.allow_tf32 = scope->allow_tf32;
    }

    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*input));
    PTERON_ASSIGN_OR_RETURN(TensorPtr x, packed(*input, conv.channels_last));
    PTERON_ASSIGN_OR_RETURN(TensorPtr w, packed(*weight, conv.channels_last));
    int64_t sizes[slim::kMaxDims] = {conv.batch, conv.out_channels}, strides[slim::kMaxDims];
    std::copy(conv.out_sizes, conv.out_sizes + conv.dims, sizes + 2);
    const Span<const int64_t> out_sizes(sizes, input->dim());
    packed_strides(out_sizes, conv.channels_last, strides);
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            slim::make_tensor(out_sizes, Span<const int64_t>(strides, input->dim()),
                                              input->dtype(), input->device()));
    PTERON_RETURN_IF_ERROR(
        convolve(conv, x->data(), w->data(), out->data(), scope.device(), scope.stream()));
    if (addend) {
      PTERON_ASSIGN_OR_RETURN(TensorPtr b, packed(*addend, false));
      PTERON_RETURN_IF_ERROR(add_bias(conv, b->data(), out->data(), scope.stream()));
    }
    if (channels_last) {
      PTERON_ASSIGN_OR_RETURN(out, packed(*out, true));
    }
    *ret0 = out.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cuda
