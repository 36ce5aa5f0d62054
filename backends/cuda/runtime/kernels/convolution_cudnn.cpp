// Convolutions through cuDNN. Descriptors and the library's choice of algorithm are cached by
// the thread for each kind of convolution.
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/kernels/cudnn_handle.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

// More workspace than this is rarely worth what it takes from the model.
constexpr size_t kMaxWorkspace = size_t{1} << 30;
constexpr int kMaxAlgorithms = 8;
constexpr size_t kMaxPlans = 1024;

#define PTERON_DNN_RETURN_IF_ERROR(dnn, call, what)                                            \
  do {                                                                                         \
    const cudnnStatus_t pteron_status_ = (dnn).call;                                           \
    if (pteron_status_ != CUDNN_STATUS_SUCCESS) return cudnn_error(dnn, pteron_status_, what); \
  } while (false)

cudnnDataType_t data_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
      return CUDNN_DATA_HALF;
    case ScalarType::BFloat16:
      return CUDNN_DATA_BFLOAT16;
    case ScalarType::Double:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

struct Plan {
  explicit Plan(const Cudnn* dnn) : dnn(dnn) {}
  ~Plan() {
    if (input) dnn->cudnnDestroyTensorDescriptor(input);
    if (out) dnn->cudnnDestroyTensorDescriptor(out);
    if (weight) dnn->cudnnDestroyFilterDescriptor(weight);
    if (conv) dnn->cudnnDestroyConvolutionDescriptor(conv);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Cudnn* dnn;
  cudnnTensorDescriptor_t input = nullptr, out = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnConvolutionFwdAlgo_t forward{};
  cudnnConvolutionBwdDataAlgo_t backward{};
  size_t workspace = 0;
};

// cuDNN counts two spatial dimensions at least: one is given a neighbour of size 1 before it.
int spatial_dims(const Convolution& c) { return c.dims < 2 ? 2 : c.dims; }

std::vector<int> padded(const Convolution& c, const int64_t* values, int neutral) {
  std::vector<int> result;
  if (c.dims == 1) result.push_back(neutral);
  for (int i = 0; i < c.dims; ++i) result.push_back(static_cast<int>(values[i]));
  return result;
}

std::vector<int> packed_strides(const std::vector<int>& sizes, bool channels_last) {
  std::vector<int> strides(sizes.size());
  int stride = 1;
  if (channels_last) {
    strides[1] = 1;
    stride = sizes[1];
  }
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  if (!channels_last) {
    strides[1] = stride;
    stride *= sizes[1];
  }
  strides[0] = stride;
  return strides;
}

class PlanMaker final {
 public:
  PlanMaker(const Convolution& conv, const CudnnHandle& handle)
      : c_(conv), dnn_(*handle.dnn), handle_(handle.handle), type_(data_type(conv.dtype)) {}

  Result<std::unique_ptr<Plan>> make() {
    auto plan = std::make_unique<Plan>(&dnn_);
    PTERON_RETURN_IF_ERROR(tensor(c_.in_channels, c_.in_sizes, &plan->input));
    PTERON_RETURN_IF_ERROR(tensor(c_.out_channels, c_.out_sizes, &plan->out));
    PTERON_RETURN_IF_ERROR(filter(&plan->weight));
    PTERON_RETURN_IF_ERROR(convolution(&plan->conv));
    PTERON_RETURN_IF_ERROR(c_.transposed ? choose_backward(*plan) : choose_forward(*plan));
    return plan;
  }

 private:
  Error tensor(int64_t channels, const int64_t* spatial, cudnnTensorDescriptor_t* descriptor) {
    std::vector<int> sizes = {static_cast<int>(c_.batch), static_cast<int>(channels)};
    for (int size : padded(c_, spatial, 1)) sizes.push_back(size);
    const std::vector<int> strides = packed_strides(sizes, c_.channels_last);
    PTERON_DNN_RETURN_IF_ERROR(dnn_, cudnnCreateTensorDescriptor(descriptor),
                               "describing a tensor");
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_,
        cudnnSetTensorNdDescriptor(*descriptor, type_, static_cast<int>(sizes.size()), sizes.data(),
                                   strides.data()),
        "describing a tensor");
    return Error::Ok;
  }

  Error filter(cudnnFilterDescriptor_t* descriptor) {
    // A transposed convolution is the gradient of one from its output to its input.
    const int64_t outer = c_.transposed ? c_.in_channels : c_.out_channels;
    const int64_t inner = (c_.transposed ? c_.out_channels : c_.in_channels) / c_.groups;
    std::vector<int> sizes = {static_cast<int>(outer), static_cast<int>(inner)};
    for (int size : padded(c_, c_.kernel, 1)) sizes.push_back(size);
    PTERON_DNN_RETURN_IF_ERROR(dnn_, cudnnCreateFilterDescriptor(descriptor),
                               "describing a weight");
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_,
        cudnnSetFilterNdDescriptor(*descriptor, type_,
                                   c_.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   static_cast<int>(sizes.size()), sizes.data()),
        "describing a weight");
    return Error::Ok;
  }

  Error convolution(cudnnConvolutionDescriptor_t* descriptor) {
    const std::vector<int> padding = padded(c_, c_.padding, 0), stride = padded(c_, c_.stride, 1),
                           dilation = padded(c_, c_.dilation, 1);
    PTERON_DNN_RETURN_IF_ERROR(dnn_, cudnnCreateConvolutionDescriptor(descriptor),
                               "describing a convolution");
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_,
        cudnnSetConvolutionNdDescriptor(
            *descriptor, spatial_dims(c_), padding.data(), stride.data(), dilation.data(),
            CUDNN_CROSS_CORRELATION,
            type_ == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        "describing a convolution");
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_, cudnnSetConvolutionGroupCount(*descriptor, static_cast<int>(c_.groups)),
        "describing a convolution");
    return set_math(*descriptor, default_math());
  }

  cudnnMathType_t default_math() const {
    if (type_ == CUDNN_DATA_HALF || type_ == CUDNN_DATA_BFLOAT16) return CUDNN_TENSOR_OP_MATH;
    // The default for float32 would be TF32.
    return c_.allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  }

  Error set_math(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
    PTERON_DNN_RETURN_IF_ERROR(dnn_, cudnnSetConvolutionMathType(descriptor, math),
                               "choosing a convolution's arithmetic");
    return Error::Ok;
  }

  // The fastest by the library's estimate whose arithmetic and workspace are allowed.
  template <typename Found>
  const Found* pick(const std::array<Found, kMaxAlgorithms>& found, int count) const {
    for (int i = 0; i < count; ++i) {
      if (found[static_cast<size_t>(i)].status != CUDNN_STATUS_SUCCESS) continue;
      if (found[static_cast<size_t>(i)].memory > kMaxWorkspace) continue;
      return &found[static_cast<size_t>(i)];
    }
    return nullptr;
  }

  Error choose_forward(Plan& plan) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMaxAlgorithms> found{};
    int count = 0;
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_,
        cudnnGetConvolutionForwardAlgorithm_v7(handle_, plan.input, plan.weight, plan.conv,
                                               plan.out, kMaxAlgorithms, &count, found.data()),
        "choosing a convolution's algorithm");
    const auto* best = pick(found, count);
    PTERON_CHECK_OR_RETURN(best, Error::NotSupported, "cuDNN has no algorithm");
    plan.forward = best->algo;
    plan.workspace = best->memory;
    return set_math(plan.conv, best->mathType);
  }

  Error choose_backward(Plan& plan) {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMaxAlgorithms> found{};
    int count = 0;
    PTERON_DNN_RETURN_IF_ERROR(
        dnn_,
        cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, plan.weight, plan.input, plan.conv,
                                                    plan.out, kMaxAlgorithms, &count, found.data()),
        "choosing a convolution's algorithm");
    const auto* best = pick(found, count);
    PTERON_CHECK_OR_RETURN(best, Error::NotSupported, "cuDNN has no algorithm");
    plan.backward = best->algo;
    plan.workspace = best->memory;
    return set_math(plan.conv, best->mathType);
  }

  const Convolution& c_;
  const Cudnn& dnn_;
  const cudnnHandle_t handle_;
  const cudnnDataType_t type_;
};

using Key = std::array<int64_t, 32>;

Key make_key(const Convolution& c, int device) {
  Key key{};
  size_t i = 0;
  for (int64_t value :
       {int64_t{device}, static_cast<int64_t>(c.dtype), int64_t{c.dims},
        int64_t{c.transposed} | int64_t{c.channels_last} << 1 | int64_t{c.allow_tf32} << 2, c.batch,
        c.in_channels, c.out_channels, c.groups}) {
    key[i++] = value;
  }
  for (const int64_t* values :
       {c.in_sizes, c.out_sizes, c.kernel, c.stride, c.padding, c.dilation}) {
    for (int d = 0; d < kMaxSpatialDims; ++d) key[i++] = values[d];
  }
  return key;
}

}  // namespace

Error convolve_with_cudnn(const Convolution& conv, const void* input, const void* weight, void* out,
                          int device, cudaStream_t stream) {
  PTERON_ASSIGN_OR_RETURN(CudnnHandle * handle, cudnn_handle_for(device, stream));
  thread_local std::map<Key, std::unique_ptr<Plan>> plans;
  const Key key = make_key(conv, device);
  auto found = plans.find(key);
  if (found == plans.end()) {
    PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, PlanMaker(conv, *handle).make());
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, std::move(plan)).first;
  }
  const Plan& plan = *found->second;
  slim::StorageRef workspace;
  if (plan.workspace > 0) {
    PTERON_ASSIGN_OR_RETURN(workspace, allocate_scratch(plan.workspace, device));
  }
  void* scratch = workspace ? workspace->data : nullptr;
  const Cudnn& dnn = *handle->dnn;
  const double one_double = 1.0, zero_double = 0.0;
  const float one_float = 1.0f, zero_float = 0.0f;
  const bool is_double = conv.dtype == ScalarType::Double;
  const void* one = is_double ? static_cast<const void*>(&one_double) : &one_float;
  const void* zero = is_double ? static_cast<const void*>(&zero_double) : &zero_float;
  const cudnnStatus_t status =
      conv.transposed ? dnn.cudnnConvolutionBackwardData(
                            handle->handle, one, plan.weight, weight, plan.input, input, plan.conv,
                            plan.backward, scratch, plan.workspace, zero, plan.out, out)
                      : dnn.cudnnConvolutionForward(handle->handle, one, plan.input, input,
                                                    plan.weight, weight, plan.conv, plan.forward,
                                                    scratch, plan.workspace, zero, plan.out, out);
  return cudnn_error(dnn, status, "running a convolution");
}

}  // namespace pteron::cuda
