// Native code of a model: from bytes in memory to callable functions.
//
//   PTERON_ASSIGN_OR_RETURN(std::shared_ptr<SharedObject> object,
//                           SharedObject::load(bytes, digest));
//   void* run = object->symbol("AOTInductorModelContainerRun");
//
// A copy of the bytes is checked against the digest, its shims are renamed to private names and
// resolved, and only then is it opened: on Linux from memory or, where that is forbidden, from a
// temporary file. No descriptor stays open. Equal bytes are loaded once, and unloaded with the last
// owner. Thread-safe.
//
// load() trusts the digest: the code it identifies runs in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron::aoti {

class SharedObject final {
 public:
  // `bytes` is borrowed for the call. InvalidProgram: the bytes differ from `digest`, or are no
  // shared object; OperatorMissing: it needs shims that no library here provides (all are named);
  // NotSupported: the system cannot open it.
  static Result<std::shared_ptr<SharedObject>> load(Span<const uint8_t> bytes,
                                                    const Sha256Digest& digest);

  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Null if the shared object has no such symbol.
  void* symbol(const char* name) const;
  // The shims it imports, by their original names, sorted.
  const std::vector<std::string>& imported() const { return imported_; }
  const Sha256Digest& digest() const { return digest_; }

  // While at least one call is open, the code calls `tracing` (kernel_trace.cpp), if it can: the
  // same for all callers.
  void begin_tracing(const void* tracing);
  void end_tracing() noexcept;

 private:
  SharedObject() = default;
  void set_tracing(const void* tracing) const;

  Sha256Digest digest_{};
  std::vector<std::string> imported_;
  void* handle_ = nullptr;
  std::mutex tracing_mutex_;
  size_t num_traced_ = 0;  // open calls
};

}  // namespace pteron::aoti
