// One run of a delegate as a CUDA graph, for arguments of the same sizes and numbers at any address.
//
//   PTERON_ASSIGN_OR_RETURN(auto graph, CudaGraph::capture(run, device, pool, capture_stream));
//   if (graph->fits(arguments)) PTERON_RETURN_IF_ERROR(graph->launch(arguments, stream));
//
// The graph works in place on memory that stays where it is (planned memory, mutable buffers,
// weights). Tensors of a caller have copies in the graph's memory, to which inputs are copied before
// a launch, and from where outputs, and inputs that the code changes, are copied after it. Unless all
// of them are where they were in the run that was captured: for that there is a second graph, which
// works on them in place. Memory comes from `pool`, which keeps all of it while a graph lives, and
// whose graphs never run at once.
//
// What a run does on the host is done once, while it is captured: the sizes and the integers that
// it gives are those of the sizes and numbers that it got.
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
  // `stream` is current on the calling thread, as its `device` is, and what the run allocates comes
  // from `pool`. An error says what cannot be in a graph; the stream is then as before.
  static Result<std::unique_ptr<CudaGraph>> capture(const aoti::FinishedRun& run, int device,
                                                    std::shared_ptr<CachingPool> pool,
                                                    cudaStream_t stream);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Whether a run on these arguments is what this graph does.
  bool fits(Span<EValue* const> arguments) const;

  // For arguments that fit. Queued on `stream`, of the current device, which is the graph's.
  // Allocates nothing.
  Error launch(Span<EValue* const> arguments, cudaStream_t stream) const;

 private:
  struct Argument {
    EValue value;  // as in the run, but that a tensor is at the address that the graph works on
    bool copied = false;                // from or to the caller's memory
    bool changed = false;               // an input that the code writes to
    const void* caller_data = nullptr;  // of a copied one, in the run
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
  ExecutableGraph in_place_;  // null where nothing is copied
};

}  // namespace pteron::cuda
