#include "pteron/backends/aoti/runtime/container/shared_object.h"

#include <dlfcn.h>

#include <map>

#include "pteron/backends/aoti/runtime/container/image.h"
#include "pteron/backends/aoti/shims/shim_library.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::aoti {
namespace {

// Shared objects in use, by digest. The lock is held while one is opened (so that it is opened
// once) and closed, also to exclude fork().
struct LoadedObjects {
  ForkMutex mutex;
  std::map<Sha256Digest, std::weak_ptr<SharedObject>> by_digest;
};

LoadedObjects& loaded_objects() {
  static Once<LoadedObjects> objects;
  return objects.get([] { return LoadedObjects(); });
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<SharedObject>> SharedObject::load(Span<const uint8_t> bytes,
                                                         const Sha256Digest& digest) {
  // The copy is verified, renamed and run, since a mapped file may change meanwhile.
  std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const Sha256Digest found = sha256(copy);
  PTERON_CHECK_OR_RETURN(found == digest, Error::InvalidProgram,
                         "the model's code is damaged: SHA-256 of its %zu bytes is %s, expected %s",
                         bytes.size(), to_hex(found).c_str(), to_hex(digest).c_str());
  LoadedObjects& objects = loaded_objects();
  std::lock_guard<ForkMutex> lock(objects.mutex);
  std::weak_ptr<SharedObject>& known = objects.by_digest[digest];
  if (std::shared_ptr<SharedObject> object = known.lock()) return object;

  std::shared_ptr<SharedObject> object(new SharedObject);
  object->digest_ = digest;
  PTERON_ASSIGN_OR_RETURN(object->imported_, make_imports_private(copy));
  promote_shim_libraries();
  const std::vector<std::string> missing = missing_shims(object->imported_);
  PTERON_CHECK_OR_RETURN(
      missing.empty(), Error::OperatorMissing,
      "the model calls %zu function%s that this runtime does not provide: %s. Lower it again for "
      "this runtime, or use one whose backend has them; for operators of your own, load their "
      "library first (pteron.load_operators, or dlopen with RTLD_GLOBAL)",
      missing.size(), missing.size() == 1 ? "" : "s", join(missing).c_str());

  PTERON_ASSIGN_OR_RETURN(object->handle_,
                          open_image("pteron_model_" + to_hex(digest).substr(0, 16), copy));
  known = object;
  return object;
}

SharedObject::~SharedObject() {
  if (!handle_) return;
  std::lock_guard<ForkMutex> lock(loaded_objects().mutex);
  dlclose(handle_);
}

void SharedObject::begin_tracing(const void* tracing) {
  const std::lock_guard<std::mutex> lock(tracing_mutex_);
  if (num_traced_++ == 0) set_tracing(tracing);
}

void SharedObject::end_tracing() noexcept {
  const std::lock_guard<std::mutex> lock(tracing_mutex_);
  if (--num_traced_ == 0) set_tracing(nullptr);
}

void SharedObject::set_tracing(const void* tracing) const {
  // Code of earlier versions lacks it.
  if (auto* const set = reinterpret_cast<void (*)(const void*)>(symbol("pteron_set_tracing"))) {
    set(tracing);
  }
}

void* SharedObject::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace pteron::aoti
