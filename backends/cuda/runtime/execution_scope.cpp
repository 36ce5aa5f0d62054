#include "pteron/backends/cuda/runtime/execution_scope.h"

namespace pteron::cuda {

thread_local const ExecutionResources* ExecutionScope::current_ = nullptr;

}  // namespace pteron::cuda
