// Convolution through cuDNN. Plans are cached per thread and problem: cuDNN does not guarantee that
// several threads may run one plan.
#include <cudnn_frontend.h>

#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/per_thread.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/convolution.h"
#include "pteron/backends/cuda/runtime/shims/cudnn_handle.h"

namespace pteron::cuda {
namespace {

// Arguments of a plan: tensor addresses in the order of `Id`, and the workspace.
class VariantPack final {
 public:
  static constexpr size_t kTensors = 5;
  using Addresses = std::array<const void*, kTensors + 1>;

  VariantPack(const Cudnn& dnn, const Addresses& addresses, bool whole)
      : dnn_(dnn), addresses_(addresses) {
    int64_t ids[kTensors], count = 0;
    const void* data[kTensors];
    for (size_t i = 0; i < kTensors; ++i) {
      const bool is_used = addresses[i] && (whole || i < 3);
      if (!is_used) continue;
      ids[count] = static_cast<int64_t>(i) + 1;
      data[count++] = addresses[i];
    }
    status_ = dnn_.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack_);
    set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &addresses[kTensors]);
    set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data);
    set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = dnn_.cudnnBackendFinalize(pack_);
  }
  ~VariantPack() {
    if (pack_) dnn_.cudnnBackendDestroyDescriptor(pack_);
  }
  VariantPack(const VariantPack&) = delete;
  VariantPack& operator=(const VariantPack&) = delete;

  bool is_of(const Addresses& addresses) const { return addresses_ == addresses; }
  cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan) const {
    return status_ == CUDNN_STATUS_SUCCESS ? dnn_.cudnnBackendExecute(handle, plan, pack_)
                                           : status_;
  }

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) {
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    status_ = dnn_.cudnnBackendSetAttribute(pack_, name, type, count, values);
  }

  const Cudnn& dnn_;
  const Addresses addresses_;
  cudnnBackendDescriptor_t pack_ = nullptr;
  cudnnStatus_t status_;
};

// For one convolution problem. Used by one thread at a time, with any handle.
struct Plan {
  std::shared_ptr<const void> owner;
  cudnnBackendDescriptor_t plan = nullptr;  // null: none
  size_t workspace = 0;
  // Whether it fuses bias, residual and relu; otherwise they are left to finish_convolution.
  bool whole = true;
  // Cached addresses; a model reuses the same ones.
  std::vector<std::unique_ptr<VariantPack>> packs;
  size_t next_pack = 0;
};

namespace fe = cudnn_frontend;

// Workspace limit; more rarely pays off.
constexpr int64_t kMaxWorkspace = int64_t{1} << 30;

// The tensors of VariantPack::Addresses.
enum Id : int64_t { kInput = 1, kWeight, kOut, kBias, kResidual };

// A plan run with more address tuples than this creates a variant pack per run.
constexpr size_t kMaxPacks = 16;

using Dims = std::vector<int64_t>;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

#define PTERON_GRAPH_RETURN_IF_BAD(call)                                        \
  do {                                                                          \
    fe::error_t pteron_status_ = (call);                                        \
    if (pteron_status_.is_bad()) {                                              \
      return make_error(Error::NotSupported, "a convolution through cuDNN: %s", \
                        pteron_status_.get_message().c_str());                  \
    }                                                                           \
  } while (false)

fe::DataType_t data_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
      return fe::DataType_t::HALF;
    case ScalarType::BFloat16:
      return fe::DataType_t::BFLOAT16;
    default:
      return fe::DataType_t::FLOAT;
  }
}

// cuDNN requires two spatial dimensions: a 1-d convolution gets a leading one of size 1.
Dims spatial(const Convolution& c, const int64_t* values, int64_t neutral) {
  Dims result;
  if (c.dims == 1) result.push_back(neutral);
  result.insert(result.end(), values, values + c.dims);
  return result;
}

Dims sizes_of(const Convolution& c, int64_t first, int64_t second, const int64_t* space) {
  Dims sizes = spatial(c, space, 1);
  sizes.insert(sizes.begin(), {first, second});
  return sizes;
}

Dims packed_strides(const Dims& sizes, bool channels_last) {
  Dims strides(sizes.size());
  int64_t stride = channels_last ? sizes[1] : 1;
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  strides[1] = channels_last ? 1 : stride;
  strides[0] = channels_last ? stride : stride * sizes[1];
  return strides;
}

// The headers do not expose the list of plans.
class Graph final : public fe::graph::Graph {
 public:
  std::shared_ptr<fe::ExecutionPlan> plan(int64_t index) const {
    return plans.execution_plans[static_cast<size_t>(index)];
  }
};

class GraphMaker final {
 public:
  explicit GraphMaker(const Convolution& conv) : c_(conv) {
    graph_.set_io_data_type(data_type(conv.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Graph& make(bool bias, bool residual, bool relu) {
    const Dims out_sizes = sizes_of(c_, c_.batch, c_.out_channels, c_.out_sizes);
    // A transposed convolution is the input gradient of a convolution.
    const int64_t outer = c_.transposed ? c_.in_channels : c_.out_channels;
    const int64_t inner = (c_.transposed ? c_.out_channels : c_.in_channels) / c_.groups;
    Tensor input = tensor(kInput, sizes_of(c_, c_.batch, c_.in_channels, c_.in_sizes));
    Tensor weight = tensor(kWeight, sizes_of(c_, outer, inner, c_.kernel));
    Tensor out = c_.transposed
                     ? graph_.conv_dgrad(input, weight, window<fe::graph::Conv_dgrad_attributes>())
                     : graph_.conv_fprop(input, weight, window<fe::graph::Conv_fprop_attributes>());
    const auto then = [&](fe::PointwiseMode_t mode, Tensor with) {
      place(out, out_sizes);
      const auto options = fe::graph::Pointwise_attributes().set_mode(mode);
      out = with ? graph_.pointwise(out, with, options) : graph_.pointwise(out, options);
    };
    if (residual) then(fe::PointwiseMode_t::ADD, tensor(kResidual, out_sizes));
    if (bias) {
      Dims sizes(out_sizes.size(), 1);
      sizes[1] = c_.out_channels;
      then(fe::PointwiseMode_t::ADD, tensor(kBias, sizes));
    }
    if (relu) then(fe::PointwiseMode_t::RELU_FWD, nullptr);
    place(out, out_sizes);
    out->set_output(true).set_uid(kOut);
    return graph_;
  }

 private:
  Tensor tensor(Id id, const Dims& sizes) {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_uid(id).set_dim(sizes).set_stride(strides(sizes)));
  }
  Dims strides(const Dims& sizes) const { return packed_strides(sizes, c_.channels_last); }
  void place(const Tensor& out, const Dims& sizes) const {
    out->set_dim(sizes).set_stride(strides(sizes));
  }

  template <typename Attributes>
  Attributes window() const {
    return Attributes()
        .set_padding(spatial(c_, c_.padding, 0))
        .set_stride(spatial(c_, c_.stride, 1))
        .set_dilation(spatial(c_, c_.dilation, 1));
  }

  const Convolution& c_;
  Graph graph_;
};

// The fastest by cuDNN's estimate that can be built. NotSupported if there is none.
Result<Plan> build_plan(const Convolution& conv, bool bias, bool residual, bool relu,
                        cudnnHandle_t handle) {
  GraphMaker maker(conv);
  Graph& graph = maker.make(bias, residual, relu);
  PTERON_GRAPH_RETURN_IF_BAD(graph.validate());
  PTERON_GRAPH_RETURN_IF_BAD(graph.build_operation_graph(handle));
  PTERON_GRAPH_RETURN_IF_BAD(
      graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  graph.deselect_workspace_greater_than(kMaxWorkspace);
  using Note = fe::NumericalNote_t;
  if (conv.dtype != ScalarType::Float) {
    graph.deselect_numeric_notes({Note::REDUCED_PRECISION_REDUCTION});
  } else if (!conv.allow_tf32) {
    graph.deselect_numeric_notes({Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  }
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    if (graph.build_plan_at_index(i).is_bad()) continue;
    const auto built = graph.plan(i);
    Plan plan;
    plan.owner = built;
    plan.plan = built->get_raw_desc();
    plan.workspace = static_cast<size_t>(built->getWorkspaceSize());
    return plan;
  }
  return make_error(Error::NotSupported, "cuDNN has no such convolution");
}

Result<Plan> try_plan(const Convolution& conv, bool bias, bool residual, bool relu,
                      cudnnHandle_t handle) {
  try {  // the headers report some errors by exception
    return build_plan(conv, bias, residual, relu, handle);
  } catch (const std::exception& error) {
    return make_error(Error::NotSupported, "a convolution through cuDNN: %s", error.what());
  }
}

// `workspace`: device memory of the plan's workspace size.
Error run(const Cudnn& dnn, cudnnHandle_t handle, Plan& plan, const ConvolutionOperands& operands,
          void* workspace) {
  const VariantPack::Addresses addresses = {operands.input, operands.weight,   operands.out,
                                            operands.bias,  operands.residual, workspace};
  const VariantPack* found = nullptr;
  for (const auto& pack : plan.packs) {
    if (pack->is_of(addresses)) found = pack.get();
  }
  if (!found) {
    auto pack = std::make_unique<VariantPack>(dnn, addresses, plan.whole);
    found = pack.get();
    if (plan.packs.size() < kMaxPacks) {
      plan.packs.push_back(std::move(pack));
    } else {
      plan.packs[plan.next_pack++ % kMaxPacks] = std::move(pack);
    }
  }
  return cudnn_error(dnn, found->execute(handle, plan.plan), "running a convolution");
}

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

using Plans = std::unordered_map<Key, Plan, Hash>;

// Whether a fused plan is right, and faster than a convolution followed by a pass over its output.
bool is_one_plan_better(const Convolution& c) {
  const bool is_depthwise = c.groups > 1 && c.groups == c.in_channels;
  // ReLU in cuDNN's plans for TF32 makes a number of NaN (on an H100).
  const bool loses_nan = c.relu && c.dtype == ScalarType::Float;
  return c.channels_last && !c.transposed && !is_depthwise && !loses_nan;
}

// The first fused plan or, if there is none, the first of the convolution alone.
Result<Plan> make_plan(const Convolution& conv, const ConvolutionOperands& operands,
                       cudnnHandle_t handle) {
  const bool is_more = operands.bias || operands.residual || conv.relu;
  if (is_more && is_one_plan_better(conv)) {
    auto whole = try_plan(conv, operands.bias, operands.residual, conv.relu, handle);
    if (whole.ok()) return whole;
  }
  PTERON_ASSIGN_OR_RETURN(Plan plan, try_plan(conv, false, false, false, handle));
  plan.whole = false;
  return plan;
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
    Result<Plan> made = make_plan(conv, operands, handle->handle);
    if (!made.ok() && made.error() != Error::NotSupported) return made.take_error();
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, made.ok() ? std::move(*made) : Plan()).first;
    if (!made.ok()) return made.take_error();
  }
  Plan& plan = found->second;
  if (!plan.plan) return Error::NotSupported;
  slim::StorageRef workspace;
  if (plan.workspace > 0) {
    PTERON_ASSIGN_OR_RETURN(workspace, allocate_scratch(plan.workspace, device));
  }
  PTERON_RETURN_IF_ERROR(
      run(*handle->dnn, handle->handle, plan, operands, workspace ? workspace->data : nullptr));
  return plan.whole ? Error(Error::Ok) : finish_convolution(conv, operands, stream);
}

}  // namespace pteron::cuda
