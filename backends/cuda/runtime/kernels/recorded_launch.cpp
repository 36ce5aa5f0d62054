#include "pteron/backends/cuda/runtime/kernels/recorded_launch.h"

#include <algorithm>
#include <cstring>

#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda {
namespace {

constexpr size_t kMaxSteps = 4;

struct Edge {
  cudaGraphNode_t from = nullptr;
  cudaGraphNode_t to = nullptr;
  bool overlaps = false;  // programmatic dependent launch: `to` may start before `from` has ended
};

// The edges of a small graph; false if there are more than in a chain.
bool edges_of(cudaGraph_t graph, std::vector<Edge>* edges) {
  cudaGraphNode_t from[kMaxSteps], to[kMaxSteps];
  cudaGraphEdgeData data[kMaxSteps];
  size_t count = 0;
  if (cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) != cudaSuccess) return false;
  if (count >= kMaxSteps) return false;
  if (count > 0 && cudaGraphGetEdges(graph, from, to, data, &count) != cudaSuccess) return false;
  for (size_t i = 0; i < count; ++i) {
    edges->push_back({from[i], to[i], data[i].type == cudaGraphDependencyTypeProgrammatic});
  }
  return true;
}

// A kernel's arguments as bytes of its parameter buffer.
bool arguments_of(const Driver& driver, CUfunction function, const CUDA_KERNEL_NODE_PARAMS& params,
                  std::vector<unsigned char>* bytes) {
  if (params.kernelParams == nullptr && params.extra != nullptr) {
    const unsigned char* data = nullptr;
    size_t nbytes = 0;
    for (void** entry = params.extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
      if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        data = static_cast<const unsigned char*>(entry[1]);
      } else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        nbytes = *static_cast<const size_t*>(entry[1]);
      } else {
        return false;
      }
    }
    if (data) bytes->assign(data, data + nbytes);
    return data != nullptr;
  }
  size_t offset = 0, nbytes = 0;
  for (size_t i = 0; driver.cuFuncGetParamInfo(function, i, &offset, &nbytes) == CUDA_SUCCESS;
       ++i) {
    if (params.kernelParams == nullptr) return false;
    if (bytes->size() < offset + nbytes) bytes->resize(offset + nbytes);
    std::memcpy(bytes->data() + offset, params.kernelParams[i], nbytes);
  }
  return true;
}

}  // namespace

std::unique_ptr<RecordedLaunch> RecordedLaunch::record(
    cudaStream_t side, const std::function<bool(cudaStream_t)>& call) {
  Result<const Driver*> driver = Driver::get();
  if (!driver.ok()) return nullptr;
  std::unique_ptr<RecordedLaunch> recorded(new RecordedLaunch(*driver));
  // Relaxed mode: another thread's capture must not reject the library's calls.
  if (cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  const bool called = call(side);
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(side, &graph);
  const bool taken = called && status == cudaSuccess && graph && recorded->take(graph);
  if (graph) (void)cudaGraphDestroy(graph);
  if (!taken) (void)cudaGetLastError();
  return taken ? std::move(recorded) : nullptr;
}

bool RecordedLaunch::take(cudaGraph_t graph) {
  cudaGraphNode_t nodes[kMaxSteps];
  size_t count = 0;
  if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) return false;
  if (count == 0 || count > kMaxSteps) return false;
  if (cudaGraphGetNodes(graph, nodes, &count) != cudaSuccess) return false;
  std::vector<Edge> edges;
  if (!edges_of(graph, &edges) || edges.size() != count - 1) return false;
  const auto edge_to = [&](cudaGraphNode_t node) {
    return std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == node; });
  };
  cudaGraphNode_t* const end = nodes + count;
  cudaGraphNode_t* const first =
      std::find_if(nodes, end, [&](cudaGraphNode_t node) { return edge_to(node) == edges.end(); });
  if (first == end || !add(*first, false)) return false;
  for (cudaGraphNode_t node = *first; steps_.size() < count;) {
    const auto next =
        std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.from == node; });
    if (next == edges.end() || !add(next->to, next->overlaps)) return false;
    node = next->to;
  }
  return true;
}

bool RecordedLaunch::add(cudaGraphNode_t node, bool overlaps_previous) {
  cudaGraphNodeType type;
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess) return false;
  if (type == cudaGraphNodeTypeMemset) return add_zeroes(node);
  return type == cudaGraphNodeTypeKernel && add_kernel(node, overlaps_previous);
}

bool RecordedLaunch::add_zeroes(cudaGraphNode_t node) {
  cudaMemsetParams params;
  if (cudaGraphMemsetNodeGetParams(node, &params) != cudaSuccess) return false;
  if (params.value != 0 || params.height != 1) return false;
  Step step;
  step.zeroed = params.dst;
  step.zeroed_nbytes = params.width * params.elementSize;
  steps_.push_back(std::move(step));
  return true;
}

bool RecordedLaunch::add_kernel(cudaGraphNode_t node, bool overlaps_previous) {
  CUDA_KERNEL_NODE_PARAMS params;
  if (driver_->cuGraphKernelNodeGetParams(node, &params) != CUDA_SUCCESS ||
      params.func == nullptr) {
    return false;
  }
  Step kernel;
  kernel.function = params.func;
  if (!arguments_of(*driver_, params.func, params, &kernel.arguments)) return false;
  CUlaunchConfig& config = kernel.config;
  config.gridDimX = params.gridDimX;
  config.gridDimY = params.gridDimY;
  config.gridDimZ = params.gridDimZ;
  config.blockDimX = params.blockDimX;
  config.blockDimY = params.blockDimY;
  config.blockDimZ = params.blockDimZ;
  config.sharedMemBytes = params.sharedMemBytes;
  const auto set = [&](CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    kernel.attributes[config.numAttrs].id = id;
    kernel.attributes[config.numAttrs++].value = value;
  };
  const auto keep = [&](CUlaunchAttributeID id, auto is_set) {
    CUlaunchAttributeValue value{};
    const CUresult status = driver_->cuGraphKernelNodeGetAttribute(node, id, &value);
    if (status == CUDA_SUCCESS && is_set(value)) set(id, value);
  };
  keep(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, [](const auto& v) { return v.clusterDim.x > 0; });
  keep(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, [](const auto& v) {
    return v.clusterSchedulingPolicyPreference != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT;
  });
  keep(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, [](const auto& v) { return v.cooperative != 0; });
  keep(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
       [](const auto& v) { return v.preferredClusterDim.x > 0; });
  if (overlaps_previous) {
    CUlaunchAttributeValue value{};
    value.programmaticStreamSerializationAllowed = 1;
    set(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value);
  }
  steps_.push_back(std::move(kernel));
  return true;
}

Error RecordedLaunch::launch(cudaStream_t stream) const {
  for (const Step& step : steps_) {
    if (step.function) {
      PTERON_RETURN_IF_ERROR(launch_kernel(step, stream));
    } else {
      PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(step.zeroed, 0, step.zeroed_nbytes, stream),
                                  "zeroing the output of a recorded kernel");
    }
  }
  return Error::Ok;
}

Error RecordedLaunch::launch_kernel(const Step& kernel, cudaStream_t stream) const {
  CUlaunchConfig config = kernel.config;
  config.hStream = stream;
  config.attrs = const_cast<CUlaunchAttribute*>(kernel.attributes.data());  // only read
  size_t nbytes = kernel.arguments.size();
  void* arguments[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                       const_cast<unsigned char*>(kernel.arguments.data()),
                       CU_LAUNCH_PARAM_BUFFER_SIZE, &nbytes, CU_LAUNCH_PARAM_END};
  const CUresult status = driver_->cuLaunchKernelEx(&config, kernel.function, nullptr, arguments);
  if (__builtin_expect(status == CUDA_SUCCESS, 1)) return Error::Ok;
  const char* message = "unknown error";
  (void)driver_->cuGetErrorString(status, &message);
  return make_error(Error::AccessFailed, "launching a recorded kernel: %s", message);
}

}  // namespace pteron::cuda
