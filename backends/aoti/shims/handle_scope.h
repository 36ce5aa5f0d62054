// Collects the handles that a model creates with new_tensor_handle and never deletes.
//
//   HandleScope scope;
//   container.update_user_managed_constants(...);
//   std::vector<TensorPtr> kept = scope.take();      // deleted after the container
//
// Torch's container, which programs lowered before 2026-11-27 have, creates a shallow handle of each
// borrowed constant and leaks it. Scopes are per thread and do not nest.
#pragma once

#include <vector>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

class HandleScope final {
 public:
  HandleScope();
  ~HandleScope();
  HandleScope(const HandleScope&) = delete;
  HandleScope& operator=(const HandleScope&) = delete;

  // The handles created on this thread since the scope began; the caller owns them.
  std::vector<slim::TensorPtr> take() { return std::move(handles_); }

  // The scope of this thread, or null. Used by new_tensor_handle.
  static HandleScope* current();
  void add(slim::SlimTensor* handle) { handles_.emplace_back(handle); }

 private:
  std::vector<slim::TensorPtr> handles_;
};

}  // namespace pteron::aoti
