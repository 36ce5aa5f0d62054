// Collects the handles that a model makes by new_tensor_handle and never deletes.
//
//   HandleScope scope;
//   container.update_user_managed_constants(...);
//   std::vector<TensorPtr> kept = scope.take();      // deleted after the container
//
// A container keeps a shallow handle of each borrowed constant, and forgets it. Scopes belong to
// the thread that makes them and do not nest.
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

  // The handles made on this thread since the scope began; the caller owns them.
  std::vector<slim::TensorPtr> take() { return std::move(handles_); }

  // The scope of this thread, or null. For new_tensor_handle.
  static HandleScope* current();
  void add(slim::SlimTensor* handle) { handles_.emplace_back(handle); }

 private:
  std::vector<slim::TensorPtr> handles_;
};

}  // namespace pteron::aoti
