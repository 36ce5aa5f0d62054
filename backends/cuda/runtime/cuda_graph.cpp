#include "pteron/backends/cuda/runtime/cuda_graph.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda {
namespace {

struct GraphDeleter {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};
using GraphPtr = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDeleter>;

bool is_on_device(const void* data) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
         (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
}

// A graph would access host memory when it runs, long after the call that owned it.
Error check_copy(cudaGraphNode_t node) {
  cudaMemcpy3DParms params{};
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphMemcpyNodeGetParams(node, &params), "reading a graph");
  const bool arrays = params.srcArray || params.dstArray;
  PTERON_CHECK_OR_RETURN(
      !arrays && is_on_device(params.srcPtr.ptr) && is_on_device(params.dstPtr.ptr),
      Error::NotSupported, "it copies between the host and the GPU");
  return Error::Ok;
}

Error check_nodes(cudaGraph_t graph) {
  size_t count = 0;
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphGetNodes(graph, nullptr, &count), "reading a graph");
  std::vector<cudaGraphNode_t> nodes(count);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphGetNodes(graph, nodes.data(), &count), "reading a graph");
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    PTERON_CUDA_RETURN_IF_ERROR(cudaGraphNodeGetType(node, &type), "reading a graph");
    switch (type) {
      case cudaGraphNodeTypeKernel:
      case cudaGraphNodeTypeMemset:
      case cudaGraphNodeTypeEmpty:
        break;
      case cudaGraphNodeTypeMemcpy:
        PTERON_RETURN_IF_ERROR(check_copy(node));
        break;
      case cudaGraphNodeTypeGraph: {
        cudaGraph_t child = nullptr;
        PTERON_CUDA_RETURN_IF_ERROR(cudaGraphChildGraphNodeGetGraph(node, &child),
                                    "reading a graph");
        PTERON_RETURN_IF_ERROR(check_nodes(child));
        break;
      }
      default:
        return make_error(Error::NotSupported,
                          "it puts more on its stream than kernels, copies and fills (a node of "
                          "type %d)",
                          static_cast<int>(type));
    }
  }
  return Error::Ok;
}

// Captures what `run` puts on `stream`.
Result<ExecutableGraph> capture_run(cudaStream_t stream, const std::function<Error()>& run) {
  // Relaxed mode: this and other threads may allocate memory and load modules.
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                              "capturing a stream");
  Error error = run();
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &captured);
  GraphPtr graph(captured);
  if (status != cudaSuccess) (void)cudaGetLastError();
  // The error of the run says what broke the capture.
  if (!error.ok()) return error;
  PTERON_CUDA_RETURN_IF_ERROR(status, "capturing a stream");
  PTERON_RETURN_IF_ERROR(check_nodes(graph.get()));
  cudaGraphExec_t made = nullptr;
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphInstantiate(&made, graph.get(), 0),
                              "making a graph executable");
  ExecutableGraph executable(made);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphUpload(made, stream), "uploading a graph");
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "uploading a graph");
  return executable;
}

bool equal(Span<const int64_t> a, Span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Bitwise: zeros of different sign differ, and NaN equals itself.
bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && equal(a.sizes(), b.sizes()) && equal(a.strides(), b.strides());
}

Error copy(void* target, const void* source, size_t nbytes, cudaStream_t stream) {
  if (nbytes == 0) return Error::Ok;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(target, source, nbytes, cudaMemcpyDeviceToDevice, stream),
      "copying an argument of a CUDA graph");
  return Error::Ok;
}

}  // namespace

Result<std::unique_ptr<CudaGraph>> CudaGraph::capture(const aoti::FinishedRun& run, int device,
                                                      std::shared_ptr<CachingPool> pool,
                                                      cudaStream_t stream) {
  std::unique_ptr<CudaGraph> made(new CudaGraph(run.num_inputs, std::move(pool)));
  // Returned to the pool after the capture: other graphs may use it while this one does not run.
  std::vector<slim::StorageRef> memory;
  PTERON_RETURN_IF_ERROR(made->add_arguments(run, device, &memory));
  std::vector<EValue*> own;
  for (Argument& argument : made->arguments_) own.push_back(&argument.value);
  PTERON_ASSIGN_OR_RETURN(
      made->on_copies_, capture_run(stream, [&] { return run.execute({own.data(), own.size()}); }));
  if (memory.empty()) return made;
  memory.clear();
  PTERON_ASSIGN_OR_RETURN(made->in_place_,
                          capture_run(stream, [&] { return run.execute(run.arguments); }));
  return made;
}

Error CudaGraph::add_arguments(const aoti::FinishedRun& run, int device,
                               std::vector<slim::StorageRef>* memory) {
  for (size_t i = 0; i < run.arguments.size(); ++i) {
    Argument argument;
    argument.value = *run.arguments[i];
    argument.changed = i < num_inputs_ && run.changes(i);
    if (argument.value.is_tensor() && !run.fixed[i]) {
      Tensor& tensor = argument.value.tensor();
      argument.caller_data = tensor.data();
      PTERON_ASSIGN_OR_RETURN(slim::StorageRef storage, pool_->allocate(tensor.nbytes()));
      tensor.set_data(storage->data, tensor.nbytes());
      memory->push_back(std::move(storage));
      argument.copied = true;
    }
    if (argument.value.is_tensor()) {
      const Device found = argument.value.tensor().device();
      PTERON_CHECK_OR_RETURN(found.type == DeviceType::CUDA && found.index == device,
                             Error::NotSupported, "argument %zu is on %s", i,
                             describe(found).c_str());
    }
    arguments_.push_back(std::move(argument));
  }
  return Error::Ok;
}

bool CudaGraph::input_fits(const Argument& input, const EValue& value) const {
  const EValue& known = input.value;
  if (known.is_int()) return value.is_int() && value.to_int() == known.to_int();
  if (known.is_bool()) return value.is_bool() && value.to_bool() == known.to_bool();
  if (known.is_double())
    return value.is_double() && same_bits(value.to_double(), known.to_double());
  if (!value.is_tensor()) return false;
  const Tensor& tensor = value.tensor();
  if (!same_shape(tensor, known.tensor())) return false;
  if (tensor.numel() == 0) return true;
  // The code cannot write to read-only arguments.
  if (input.changed && tensor.is_constant()) return false;
  return input.copied ? tensor.data() && tensor.device() == known.tensor().device()
                      : tensor.data() == known.tensor().data();
}

bool CudaGraph::output_fits(const Argument& output, const EValue& value) const {
  if (!output.value.is_tensor()) return true;
  if (!value.is_tensor()) return false;
  const Tensor &tensor = value.tensor(), &known = output.value.tensor();
  if (known.numel() == 0) return true;
  return !tensor.is_constant() && tensor.capacity_nbytes() >= known.nbytes() &&
         tensor.device() == known.device() && (output.copied || tensor.data() == known.data());
}

bool CudaGraph::fits(Span<EValue* const> arguments) const {
  if (arguments.size() != arguments_.size()) return false;
  for (size_t i = 0; i < num_inputs_; ++i) {
    if (!input_fits(arguments_[i], *arguments[i])) return false;
  }
  for (size_t i = num_inputs_; i < arguments.size(); ++i) {
    if (!output_fits(arguments_[i], *arguments[i])) return false;
  }
  return true;
}

bool CudaGraph::is_where_it_was(Span<EValue* const> arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& known = arguments_[i];
    if (known.copied && arguments[i]->tensor().data() != known.caller_data) return false;
  }
  return true;
}

Error CudaGraph::launch(Span<EValue* const> arguments, cudaStream_t stream) const {
  for (size_t i = num_inputs_; i < arguments.size(); ++i) {
    const EValue& known = arguments_[i].value;
    if (known.is_tensor()) {
      PTERON_RETURN_IF_ERROR(arguments[i]->tensor().resize(known.tensor().sizes()));
    } else {
      *arguments[i] = known;
    }
  }
  if (!in_place_ || is_where_it_was(arguments)) {
    cudaGraphExec_t const graph = in_place_ ? in_place_.get() : on_copies_.get();
    PTERON_CUDA_RETURN_IF_ERROR(cudaGraphLaunch(graph, stream), "launching a CUDA graph");
    return Error::Ok;
  }
  for (size_t i = 0; i < num_inputs_; ++i) {
    if (!arguments_[i].copied) continue;
    const Tensor& own = arguments_[i].value.tensor();
    PTERON_RETURN_IF_ERROR(copy(own.data(), arguments[i]->tensor().data(), own.nbytes(), stream));
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGraphLaunch(on_copies_.get(), stream), "launching a CUDA graph");
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments_[i].copied || (i < num_inputs_ && !arguments_[i].changed)) continue;
    const Tensor& own = arguments_[i].value.tensor();
    PTERON_RETURN_IF_ERROR(copy(arguments[i]->tensor().data(), own.data(), own.nbytes(), stream));
  }
  return Error::Ok;
}

}  // namespace pteron::cuda
