// An LRU cache of the CUDA graphs of one delegate.
//
//   if (const CudaGraph* graph = graphs.find(arguments)) ...   // captured for such arguments
//   graphs.make_room();
//   graphs.add(std::move(graph));
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pteron/backends/cuda/runtime/cuda_graph.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cuda {

class CudaGraphs final {
 public:
  // At least 1.
  void set_limit(size_t limit) { limit_ = limit; }

  // Null if there is none. Marks the graph as most recently used.
  const CudaGraph* find(Span<EValue* const> arguments) {
    if (!graphs_.empty() && graphs_.front()->fits(arguments)) return graphs_.front().get();
    return find_older(arguments);
  }

  // Evicts until there is room for one more.
  void make_room();
  void add(std::unique_ptr<CudaGraph> graph);
  void clear() { graphs_.clear(); }

 private:
  const CudaGraph* find_older(Span<EValue* const> arguments);

  size_t limit_ = 8;
  std::vector<std::unique_ptr<CudaGraph>> graphs_;  // most recently used first
};

}  // namespace pteron::cuda
