// Convolution through cuDNN. Plans are cached per thread and problem: cuDNN does not guarantee that
// several threads may run one plan.
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/kernels/convolution_plan.h"
#include "pteron/backends/cuda/runtime/kernels/cudnn_handle.h"
#include "pteron/backends/cuda/runtime/kernels/per_thread.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr size_t kMaxPlans = 1024;

using Key = std::array<int64_t, 24>;

struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (int64_t value : key) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

Key make_key(const Convolution& c, const ConvolutionOperands& operands, int device) {
  int64_t flags = device;
  for (bool flag : {c.transposed, c.channels_last, c.allow_tf32, c.relu, operands.bias != nullptr,
                    operands.residual != nullptr}) {
    flags = flags << 1 | int64_t{flag};
  }
  Key key{flags,          static_cast<int64_t>(c.dtype) << 8 | c.dims,
          c.batch,        c.in_channels,
          c.out_channels, c.groups};
  size_t i = 6;
  for (const int64_t* values :
       {c.in_sizes, c.out_sizes, c.kernel, c.stride, c.padding, c.dilation}) {
    for (int d = 0; d < kMaxSpatialDims; ++d) key[i++] = values[d];
  }
  return key;
}

using Plans = std::unordered_map<Key, ConvolutionPlan, Hash>;

// Whether a fused plan is right, and faster than a convolution followed by a pass over its output.
bool is_one_plan_better(const Convolution& c) {
  const bool is_depthwise = c.groups > 1 && c.groups == c.in_channels;
  // ReLU in cuDNN's plans for TF32 makes a number of NaN (on an H100).
  const bool loses_nan = c.relu && c.dtype == ScalarType::Float;
  return c.channels_last && !c.transposed && !is_depthwise && !loses_nan;
}

// The first fused plan or, if there is none, the first of the convolution alone.
Result<ConvolutionPlan> make_plan(const Convolution& conv, const ConvolutionOperands& operands,
                                  cudnnHandle_t handle) {
  const bool is_more = operands.bias || operands.residual || conv.relu;
  if (is_more && is_one_plan_better(conv)) {
    auto whole = make_convolution_plans(conv, operands, handle, 1);
    if (whole.ok()) return std::move(whole->front());
  }
  Convolution alone = conv;
  alone.relu = false;
  PTERON_ASSIGN_OR_RETURN(auto plans, make_convolution_plans(alone, {}, handle, 1));
  plans.front().whole = false;
  return std::move(plans.front());
}

}  // namespace

size_t convolution_plans_kept() { return per_thread<Plans>().size(); }

Error convolve_with_cudnn(const Convolution& conv, const ConvolutionOperands& operands, int device,
                          cudaStream_t stream) {
  // The headers pass cuDNN float32 scalars where it expects the tensors' dtype.
  if (conv.dtype == ScalarType::Double) return Error::NotSupported;
  PTERON_ASSIGN_OR_RETURN(CudnnHandle * handle, cudnn_handle_for(device, stream));
  Plans& plans = per_thread<Plans>();
  const Key key = make_key(conv, operands, device);
  auto found = plans.find(key);
  if (found == plans.end()) {
    Result<ConvolutionPlan> made = make_plan(conv, operands, handle->handle);
    if (!made.ok() && made.error() != Error::NotSupported) return made.take_error();
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, made.ok() ? std::move(*made) : ConvolutionPlan()).first;
    if (!made.ok()) return made.take_error();
  }
  ConvolutionPlan& plan = found->second;
  if (!plan.plan) return Error::NotSupported;
  slim::StorageRef workspace;
  if (plan.workspace > 0) {
    PTERON_ASSIGN_OR_RETURN(workspace, allocate_scratch(plan.workspace, device));
  }
  PTERON_RETURN_IF_ERROR(run_convolution_plan(*handle->dnn, handle->handle, plan, operands,
                                              workspace ? workspace->data : nullptr));
  return plan.whole ? Error(Error::Ok) : finish_convolution(conv, operands, stream);
}

}  // namespace pteron::cuda
