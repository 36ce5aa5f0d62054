#include "pteron/backends/cuda/runtime/cuda_graphs.h"

#include <algorithm>
#include <utility>

namespace pteron::cuda {

const CudaGraph* CudaGraphs::find_older(Span<EValue* const> arguments) {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                  [&](const auto& graph) { return graph->fits(arguments); });
  if (found == graphs_.end()) return nullptr;
  std::rotate(graphs_.begin(), found, found + 1);
  return graphs_.front().get();
}

void CudaGraphs::make_room() {
  while (graphs_.size() >= limit_) graphs_.pop_back();
}

void CudaGraphs::add(std::unique_ptr<CudaGraph> graph) {
  graphs_.insert(graphs_.begin(), std::move(graph));
}

}  // namespace pteron::cuda
