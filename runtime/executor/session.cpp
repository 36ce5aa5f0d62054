#include "pteron/runtime/executor/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/executor/planned_buffer.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {

struct Session::Buffer {
  Tensor tensor;
  PlannedBuffer memory;
  Span<const uint8_t> initial;  // empty for zeros
};

namespace {

bool equal(Span<const int64_t> a, Span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool equal(Span<const uint8_t> a, Span<const uint8_t> b) {
  return a.size() == b.size() &&
         (a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

Error check_agreement(std::string_view name, const Tensor& there, const Tensor& here) {
  const bool same = there.dtype() == here.dtype() && there.device() == here.device() &&
                    equal(there.sizes(), here.sizes()) && equal(there.strides(), here.strides());
  PTERON_CHECK_OR_RETURN(
      same, Error::InvalidProgram,
      "mutable buffer %.*s is %s on %s in one method of the session and %s on %s "
      "in another",
      static_cast<int>(name.size()), name.data(), there.describe().c_str(),
      describe(there.device()).c_str(), here.describe().c_str(), describe(here.device()).c_str());
  return Error::Ok;
}

Error copy(void* target, Device to, const void* source, Device from, size_t nbytes) {
  if (to.type == DeviceType::CPU && from.type == DeviceType::CPU) {
    return copy_within_device(target, source, nbytes, to);
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator,
                          device_allocator_of(to.type == DeviceType::CPU ? from : to));
  return allocator->copy(target, to, source, from, nbytes, Wait::Yes);
}

}  // namespace

Session::Session(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
Session::~Session() = default;

Error Session::reset() {
  std::lock_guard<ForkMutex> lock(mutex_);
  return catch_exceptions([this] {
    ErrorList errors;
    for (const auto& [name, buffer] : buffers_) {
      errors.add(reset(*buffer).with_context("mutable buffer " + name));
    }
    return errors.to_error("");
  });
}

Error Session::reset(Buffer& buffer) {
  const Tensor& tensor = buffer.tensor;
  if (buffer.initial.empty()) return fill_zero(tensor.data(), tensor.nbytes(), tensor.device());
  return copy_to_device(tensor.data(), buffer.initial, tensor.device());
}

const Tensor& Session::tensor(const Buffer& buffer) { return buffer.tensor; }

std::vector<std::string> Session::buffer_names() const {
  std::vector<std::string> names;
  std::lock_guard<ForkMutex> lock(mutex_);
  names.reserve(buffers_.size());
  for (const auto& [name, buffer] : buffers_) names.push_back(name);
  return names;
}

Result<Tensor> Session::buffer(std::string_view name) const {
  {
    std::lock_guard<ForkMutex> lock(mutex_);
    const auto found = buffers_.find(name);
    if (found != buffers_.end()) return found->second->tensor;
  }
  return catch_exceptions([&]() -> Result<Tensor> {
    std::string names;
    for (const std::string& known : buffer_names()) names += (names.empty() ? "" : ", ") + known;
    return make_error(Error::NotFound, "no mutable buffer \"%.*s\" in the session; it has %s",
                      static_cast<int>(name.size()), name.data(),
                      names.empty() ? "none (load a method into it first)" : names.c_str());
  });
}

Error Session::set_buffer(std::string_view name, const Tensor& value) {
  PTERON_ASSIGN_OR_RETURN(const Tensor buffer, this->buffer(name));
  return catch_exceptions([&]() -> Error {
    PTERON_CHECK_OR_RETURN(
        value.dtype() == buffer.dtype() && equal(value.sizes(), buffer.sizes()) &&
            equal(value.strides(), buffer.strides()),
        Error::InvalidArgument, "mutable buffer %.*s is %s, dense; found %s%s",
        static_cast<int>(name.size()), name.data(), buffer.describe().c_str(),
        value.describe().c_str(), equal(value.sizes(), buffer.sizes()) ? ", or other strides" : "");
    return pteron::copy(buffer.data(), buffer.device(), value.data(), value.device(),
                        buffer.nbytes());
  });
}

Result<std::shared_ptr<Session>> Session::copy() const {
  std::lock_guard<ForkMutex> lock(mutex_);
  return catch_exceptions([this]() -> Result<std::shared_ptr<Session>> {
    auto result = std::make_shared<Session>(program_);
    for (const auto& [name, buffer] : buffers_) {
      const Tensor& tensor = buffer->tensor;
      PTERON_ASSIGN_OR_RETURN(const Buffer* const added,
                              result->add(name, tensor, buffer->initial));
      PTERON_RETURN_IF_ERROR(copy_within_device(added->tensor.data(), tensor.data(),
                                                tensor.nbytes(), tensor.device()));
    }
    return result;
  });
}

Result<Session::Buffer*> Session::find_or_add(std::string_view name, const Tensor& tensor,
                                              Span<const uint8_t> initial) {
  std::lock_guard<ForkMutex> lock(mutex_);
  const auto found = buffers_.find(name);
  if (found != buffers_.end()) {
    Buffer& buffer = *found->second;
    PTERON_RETURN_IF_ERROR(check_agreement(name, buffer.tensor, tensor));
    PTERON_CHECK_OR_RETURN(equal(buffer.initial, initial), Error::InvalidProgram,
                           "mutable buffer %.*s begins with one value in one method of the session "
                           "and with another in another",
                           static_cast<int>(name.size()), name.data());
    return &buffer;
  }
  PTERON_ASSIGN_OR_RETURN(Buffer* const added, add(name, tensor, initial));
  // New memory is zeroed.
  if (!initial.empty()) {
    if (Error error = reset(*added); !error.ok()) {
      buffers_.erase(buffers_.find(name));
      return error;
    }
  }
  return added;
}

Result<Session::Buffer*> Session::add(std::string_view name, const Tensor& tensor,
                                      Span<const uint8_t> initial) {
  PTERON_ASSIGN_OR_RETURN(PlannedBuffer memory,
                          PlannedBuffer::allocate(tensor.nbytes(), tensor.device()));
  auto buffer = std::unique_ptr<Buffer>(new Buffer{tensor, std::move(memory), initial});
  buffer->tensor.set_data(buffer->memory.data(), buffer->memory.nbytes());
  Buffer* const added = buffer.get();
  buffers_.emplace(std::string(name), std::move(buffer));
  return added;
}

}  // namespace pteron
