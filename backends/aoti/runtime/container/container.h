// One instance of a compiled model, created by its shared object.
//
//   PTERON_ASSIGN_OR_RETURN(auto container, Container::create(object, "cpu", scope));
//   PTERON_RETURN_IF_ERROR(container->set_borrowed_constants(std::move(constants)));
//   PTERON_RETURN_IF_ERROR(container->run(inputs, outputs, nullptr));
//
// Not thread-safe: one call at a time. Containers of one shared object are independent.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "pteron/backends/aoti/runtime/container/shared_object.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Hooks of a device around every call into a shared object (create, run, delete), to set the
// current device or stream and to attribute resources to a container. Calls on one scope do not
// overlap or nest.
class ContainerScope {
 public:
  virtual ~ContainerScope() = default;
  // If it fails, the call is skipped, and so is leave().
  virtual Error enter() noexcept { return Error::Ok; }
  virtual void leave() noexcept {}
};

struct NamedConstant {
  std::string name;  // the container's
  slim::TensorPtr tensor;
};

class Container final {
 public:
  // `device` as the code names it: "cpu", "cuda:0". `scope` may be null; it must outlive the
  // container. InvalidProgram: the shared object is no model; other errors have the model's
  // message.
  static Result<std::unique_ptr<Container>> create(std::shared_ptr<SharedObject> object,
                                                   const std::string& device,
                                                   std::shared_ptr<ContainerScope> scope);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  size_t num_inputs() const { return num_inputs_; }
  size_t num_outputs() const { return num_outputs_; }
  const std::shared_ptr<SharedObject>& object() const { return object_; }

  // Names of the constants that must be supplied, in the container's order.
  Result<std::vector<std::string>> constant_names();

  // Uses the memory of `constants` in place. The memory must outlive the container, which takes
  // ownership of the tensors. Constants that are not named stay unset. InvalidProgram: a name that
  // the model does not have.
  Error set_borrowed_constants(std::vector<NamedConstant> constants);

  // Copies constants from bytes in the compiler's layout. At most once, and not together with
  // set_borrowed_constants(). InvalidProgram: another size than the model expects.
  Error copy_constants(Span<const uint8_t> blob);

  // Takes ownership of every input, also on failure, and replaces it by a null handle. The caller
  // owns the outputs; on failure they are null. InvalidArgument: a check in the code, with its
  // message; otherwise the model's message, and that of the shim that failed.
  Error run(Span<slim::SlimTensor*> inputs, Span<slim::SlimTensor*> outputs, void* stream);

 private:
  struct Api;

  Container() = default;
  Error failure(const char* what) const;

  std::shared_ptr<SharedObject> object_;
  std::shared_ptr<ContainerScope> scope_;
  slim::MemoryUse memory_use_;
  std::unique_ptr<Api> api_;
  void* handle_ = nullptr;
  size_t num_inputs_ = 0;
  size_t num_outputs_ = 0;
  bool has_constants_ = false;
  std::vector<NamedConstant> constants_;
  std::vector<slim::TensorPtr>
      shallow_handles_;  // created by the container, see shims/handle_scope.h
};

}  // namespace pteron::aoti
