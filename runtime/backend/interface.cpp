#include "pteron/runtime/backend/interface.h"

#include <atomic>
#include <map>
#include <utility>

#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

struct Registry {
  ForkMutex mutex;
  std::map<std::string, std::unique_ptr<BackendInterface>, std::less<>> backends;
};

std::atomic<BackendOpener> backend_opener{nullptr};

// Never destroyed: delegates that are freed by static destructors still need their backend.
Registry& registry() {
  static Once<Registry> registry;
  return registry.get([] { return Registry(); });
}

}  // namespace

Error register_backend(std::string_view id, std::unique_ptr<BackendInterface> backend) {
  PTERON_CHECK_OR_RETURN(!id.empty() && backend, Error::InvalidArgument,
                         "a backend needs an id and an object");
  Registry& all = registry();
  std::lock_guard<ForkMutex> lock(all.mutex);
  // emplace() may move from the object even if it adds nothing.
  PTERON_CHECK_OR_RETURN(all.backends.find(id) == all.backends.end(), Error::AlreadyLoaded,
                         "a backend %.*s is registered already", static_cast<int>(id.size()),
                         id.data());
  all.backends.emplace(std::string(id), std::move(backend));
  return Error::Ok;
}

BackendInterface* find_backend(std::string_view id) {
  Registry& all = registry();
  std::lock_guard<ForkMutex> lock(all.mutex);
  const auto found = all.backends.find(id);
  return found == all.backends.end() ? nullptr : found->second.get();
}

void set_backend_opener(BackendOpener opener) { backend_opener = opener; }

Error open_backend(std::string_view id) {
  const BackendOpener opener = backend_opener;
  return opener ? opener(id) : Error(Error::Ok);
}

std::vector<std::string> registered_backends() {
  Registry& all = registry();
  std::lock_guard<ForkMutex> lock(all.mutex);
  std::vector<std::string> ids;
  ids.reserve(all.backends.size());
  for (const auto& [id, backend] : all.backends) ids.push_back(id);
  return ids;
}

void release_cached_memory() {
  // Without the mutex, since it may take long. Backends are never removed.
  for (const std::string& id : registered_backends()) find_backend(id)->release_cached_memory();
}

}  // namespace pteron
