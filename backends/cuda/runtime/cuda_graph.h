// One run of a delegate as a CUDA graph, for arguments with the same sizes and scalars at any
// address.
//
//   PTERON_ASSIGN_OR_RETURN(auto graph, CudaGraph::capture(run, device, pool, capture_stream));
//   if (graph->fits(arguments)) PTERON_RETURN_IF_ERROR(graph->launch(arguments, stream));
//
// The graph works in place on memory with a fixed address (planned memory, mutable buffers,
// weights). The caller's tensors have copies in the graph's memory: inputs are copied before a
// launch, outputs and mutated inputs after it. If all of them are at the addresses of the captured
// run, a second graph works on them in place. Memory comes from `pool`, which keeps it while a
// graph lives, and whose graphs never run concurrently.
//
// Host work happens only at capture: output sizes and integers depend only on the input sizes and
// scalars.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cuda {

struct ExecutableGraphDeleter {
  void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
};
using ExecutableGraph =
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, ExecutableGraphDeleter>;

class CudaGraph final {
 public:
  // `stream` and its `device` are current on the calling thread, and the run allocates from `pool`.
  // An error says what cannot be captured; the stream is then unchanged.
  static Result<std::unique_ptr<CudaGraph>> capture(const aoti::FinishedRun& run, int device,
                                                    std::shared_ptr<CachingPool> pool,
                                                    cudaStream_t stream);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Whether this graph is valid for these arguments.
  bool fits(Span<EValue* const> arguments) const;

  // Requires fits(arguments). Queued on `stream` of the current device, which must be the graph's.
  // Allocates nothing.
  Error launch(Span<EValue* const> arguments, cudaStream_t stream) const;

 private:
  struct Argument {
    EValue value;          // as in the run, with tensors at the addresses that the graph uses
    bool copied = false;   // from or to the caller's memory
    bool changed = false;  // an input that the code writes to
    const void* caller_data = nullptr;  // address of a copied tensor in the captured run
  };

  CudaGraph(size_t num_inputs, std::shared_ptr<CachingPool> pool)
      : num_inputs_(num_inputs), pool_(std::move(pool)) {}
  Error add_arguments(const aoti::FinishedRun& run, int device,
                      std::vector<slim::StorageRef>* memory);
  bool is_where_it_was(Span<EValue* const> arguments) const;
  bool input_fits(const Argument& input, const EValue& value) const;
  bool output_fits(const Argument& output, const EValue& value) const;

  const size_t num_inputs_;
  const std::shared_ptr<CachingPool> pool_;
  std::vector<Argument> arguments_;  // inputs in order, then outputs
  ExecutableGraph on_copies_;
  ExecutableGraph in_place_;  // null if nothing is copied
};

}  // namespace pteron::cuda
