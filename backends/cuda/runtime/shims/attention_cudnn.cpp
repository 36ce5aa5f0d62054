// Attention through cuDNN's graph API. Plans are cached per thread and problem.
#include <cudnn_frontend.h>

#include <array>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/per_thread.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/attention.h"
#include "pteron/backends/cuda/runtime/shims/cudnn_handle.h"

namespace pteron::cuda {
namespace {

namespace fe = cudnn_frontend;

constexpr size_t kMaxPlans = 1024;

enum Id : int64_t { kQuery = 1, kKey, kValue, kBias, kOut };

struct Plan {
  fe::graph::Graph graph;
  int64_t workspace = 0;
};

Error graph_error(fe::error_t status) {
  return make_error(Error::NotSupported, "attention through cuDNN: %s",
                    status.get_message().c_str());
}

#define PTERON_GRAPH_RETURN_IF_BAD(call)                             \
  do {                                                               \
    fe::error_t pteron_status_ = (call);                             \
    if (pteron_status_.is_bad()) return graph_error(pteron_status_); \
  } while (false)

using Dims = std::vector<int64_t>;

fe::graph::Tensor_attributes tensor(Id id, Dims sizes, const int64_t (&strides)[4]) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_dim(std::move(sizes))
      .set_stride(Dims(strides, strides + 4));
}

fe::graph::Tensor_attributes bias_tensor(const Attention& a) {
  const Dims full = {a.batch, a.heads, a.queries, a.keys};
  Dims sizes(4), strides(4);
  int64_t packed = 1;
  for (size_t d = 4; d-- > 0;) {
    const bool broadcast = d < 2 && a.bias_strides[d] == 0;
    sizes[d] = broadcast ? 1 : full[d];
    strides[d] = broadcast ? packed : a.bias_strides[d];
    packed = sizes[d] * strides[d];
  }
  return fe::graph::Tensor_attributes().set_uid(kBias).set_dim(sizes).set_stride(strides);
}

Result<std::unique_ptr<Plan>> make_plan(const Attention& a, cudnnHandle_t handle) {
  auto plan = std::make_unique<Plan>();
  fe::graph::Graph& graph = plan->graph;
  graph
      .set_io_data_type(a.dtype == ScalarType::Half ? fe::DataType_t::HALF
                                                    : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto options = fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(
      static_cast<float>(a.scale));
  if (a.causal) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }
  if (a.bias) options.set_bias(graph.tensor(bias_tensor(a)));
  auto [out, statistics] = graph.sdpa(
      graph.tensor(tensor(kQuery, {a.batch, a.heads, a.queries, a.dim}, a.q_strides)),
      graph.tensor(tensor(kKey, {a.batch, a.kv_heads, a.keys, a.dim}, a.k_strides)),
      graph.tensor(tensor(kValue, {a.batch, a.kv_heads, a.keys, a.value_dim}, a.v_strides)),
      options);
  (void)statistics;
  out->set_output(true)
      .set_uid(kOut)
      .set_dim({a.batch, a.heads, a.queries, a.value_dim})
      .set_stride(Dims(a.out_strides, a.out_strides + 4));
  PTERON_GRAPH_RETURN_IF_BAD(graph.build(handle, {fe::HeurMode_t::A}));
  PTERON_GRAPH_RETURN_IF_BAD(graph.get_workspace_size(plan->workspace));
  return plan;
}

using Key = std::array<int64_t, 33>;

Key make_key(const Attention& a, int device) {
  Key key{};
  size_t i = 0;
  double scale = a.scale;
  int64_t scale_bits;
  std::memcpy(&scale_bits, &scale, sizeof scale_bits);
  for (int64_t value : {int64_t{device}, static_cast<int64_t>(a.dtype),
                        int64_t{a.causal} | int64_t{a.bias != nullptr} << 1, a.batch, a.heads,
                        a.kv_heads, a.queries, a.keys, a.dim, a.value_dim, scale_bits}) {
    key[i++] = value;
  }
  for (const auto* strides : {&a.q_strides, &a.k_strides, &a.v_strides, &a.out_strides}) {
    for (int64_t stride : *strides) key[i++] = stride;
  }
  for (int64_t stride : a.bias_strides) key[i++] = a.bias ? stride : 0;
  return key;
}

// cuDNN's kernels load 16 bytes at a time.
bool is_laid_out(const Attention& a) {
  const auto fits = [](const void* data, const int64_t (&strides)[4]) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[3] == 1 && strides[0] % 8 == 0 &&
           strides[1] % 8 == 0 && strides[2] % 8 == 0;
  };
  // cuDNN reads a mask that is broadcast over keys past its end.
  const bool fits_bias = !a.bias || a.bias_strides[3] == 1 || a.keys == 1;
  return a.dim % 8 == 0 && a.value_dim % 8 == 0 && fits(a.q, a.q_strides) &&
         fits(a.k, a.k_strides) && fits(a.v, a.v_strides) && fits_bias;
}

// Null if cuDNN has no plan.
using Plans = std::map<Key, std::unique_ptr<Plan>>;

Error run(const Attention& a, int device, cudaStream_t stream) {
  PTERON_ASSIGN_OR_RETURN(CudnnHandle * handle, cudnn_handle_for(device, stream));
  Plans& plans = per_thread<Plans>();
  const Key key = make_key(a, device);
  auto found = plans.find(key);
  if (found == plans.end()) {
    Result<std::unique_ptr<Plan>> plan = make_plan(a, handle->handle);
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, plan.ok() ? std::move(*plan) : nullptr).first;
    if (!plan.ok()) return plan.take_error();
  }
  PTERON_CHECK_OR_RETURN(found->second, Error::NotSupported, "cuDNN has no such attention");
  const Plan& plan = *found->second;
  slim::StorageRef workspace;
  if (plan.workspace > 0) {
    PTERON_ASSIGN_OR_RETURN(workspace,
                            allocate_scratch(static_cast<size_t>(plan.workspace), device));
  }
  std::unordered_map<int64_t, void*> tensors = {{kQuery, const_cast<void*>(a.q)},
                                                {kKey, const_cast<void*>(a.k)},
                                                {kValue, const_cast<void*>(a.v)},
                                                {kOut, a.out}};
  if (a.bias) tensors[kBias] = const_cast<void*>(a.bias);
  PTERON_GRAPH_RETURN_IF_BAD(
      plan.graph.execute(handle->handle, tensors, workspace ? workspace->data : nullptr));
  return Error::Ok;
}

}  // namespace

Error attention_with_cudnn(const Attention& a, int device, cudaStream_t stream) {
  if (a.dtype == ScalarType::Float || !is_laid_out(a)) return Error::NotSupported;
  try {  // the headers report some errors by exception
    return run(a, device, stream);
  } catch (const std::exception& error) {
    return make_error(Error::NotSupported, "attention through cuDNN: %s", error.what());
  }
}

}  // namespace pteron::cuda
