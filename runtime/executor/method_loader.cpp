#include "pteron/runtime/executor/method_loader.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "pteron/runtime/executor/external_data.h"
#include "pteron/runtime/executor/method_meta_reader.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {
namespace {

using flatbuffers::uoffset_t;

// Alignment of CPU memory pools.
constexpr size_t kPoolAlignment = 64;

size_t round_up(size_t nbytes) {
  return (nbytes + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
}

void add_saturating(uint64_t nbytes, uint64_t* total) {
  if (__builtin_add_overflow(*total, nbytes, total)) *total = UINT64_MAX;
}

std::string join(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

MethodLoader::MethodLoader(std::shared_ptr<const Program> program, const schema::Method& method,
                           const LoadMethodOptions& options)
    : program_(std::move(program)),
      data_(program_->data()),
      method_(method),
      options_(options),
      state_(std::make_unique<Method::State>(options.tracer)),
      budget_(options.limits.value_or(data_.limits()).load_bytes),
      comparisons_left_(uint64_t{1} << 26) {
  state_->program = program_;
  state_->limits = options.limits.value_or(data_.limits());
  state_->meta = read_method_meta(data_, method);
  const auto move = [this](auto& described) {
    for (auto& one : described) one.device = options_.devices[one.device];
  };
  move(state_->meta.inputs);
  move(state_->meta.outputs);
  move(state_->meta.pools);
  move(state_->meta.mutable_buffers);
}

Result<std::unique_ptr<Method>> MethodLoader::load() {
  TraceScope scope(options_.tracer, "load", state_->meta.name);
  const auto steps = [this]() -> Error {
    PTERON_RETURN_IF_ERROR(check_requirements());
    state_->session = options_.session ? options_.session : program_->new_session();
    PTERON_RETURN_IF_ERROR(allocate_pools());
    PTERON_RETURN_IF_ERROR(make_tensors());
    make_other_values();
    PTERON_RETURN_IF_ERROR(state_->write_initial_values());
    PTERON_RETURN_IF_ERROR(init_delegates());
    PTERON_RETURN_IF_ERROR(make_instructions());
    prepare_ends();
    take_snapshots();
    return Error::Ok;
  };
  Error error = steps();
  if (!error.ok()) return std::move(error).with_context("method " + state_->meta.name);
  return std::unique_ptr<Method>(new Method(std::move(state_)));
}

// Checks for everything missing, before any allocation.
Error MethodLoader::check_requirements() const {
  ErrorList errors;
  errors.add(check_options());
  errors.add(check_planned_bytes());
  errors.add(check_backends());
  errors.add(check_kernels());
  return errors.to_error("");
}

Error MethodLoader::check_options() const {
  PTERON_RETURN_IF_ERROR(state_->limits.check());
  PTERON_CHECK_OR_RETURN(!options_.session || &options_.session->program() == program_.get(),
                         Error::InvalidArgument,
                         "the session belongs to another program; use new_session() of this one");
  std::set<std::string> ids;
  for (const DelegateMeta& delegate : state_->meta.delegates) ids.emplace(delegate.backend_id);
  for (const auto& [id, options] : options_.backend_options) {
    PTERON_CHECK_OR_RETURN(ids.count(id) > 0, Error::InvalidArgument,
                           "options were given for backend %s; the method's backends are: %s",
                           id.c_str(), join(ids).c_str());
  }
  return Error::Ok;
}

Error MethodLoader::check_planned_bytes() const {
  const MethodMeta& meta = state_->meta;
  uint64_t pools = 0, buffers = 0, outputs = 0;
  for (const PoolMeta& pool : meta.pools) add_saturating(pool.nbytes, &pools);
  for (const MutableBufferMeta& buffer : meta.mutable_buffers) {
    add_saturating(buffer.nbytes, &buffers);
  }
  std::vector<bool> seen(method_.values()->size());
  const auto add = [&](int64_t index) {
    const schema::Tensor* const tensor =
        index < 0 ? nullptr : (*method_.values())[static_cast<uoffset_t>(index)]->value_as_Tensor();
    if (!tensor) return Error(Error::Ok);
    const bool is_again = seen[index];
    seen[index] = true;
    if (!is_again && TensorStorage::of(*tensor).planned) return Error(Error::Ok);
    PTERON_ASSIGN_OR_RETURN(const Tensor made, make_tensor(*tensor, options_.devices));
    add_saturating(made.max_nbytes(), &outputs);
    return Error(Error::Ok);
  };
  for (const int32_t index : *method_.outputs()) {
    const schema::EValue& value = *(*method_.values())[index];
    PTERON_RETURN_IF_ERROR(add(index));
    const auto* items = value.value_as_TensorList() ? value.value_as_TensorList()->items()
                        : value.value_as_OptionalTensorList()
                            ? value.value_as_OptionalTensorList()->items()
                            : nullptr;
    if (!items) continue;
    for (const int64_t item : *items) PTERON_RETURN_IF_ERROR(add(item));
  }
  uint64_t total = pools;
  add_saturating(buffers, &total);
  add_saturating(outputs, &total);
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  PTERON_CHECK_OR_RETURN(
      total <= state_->limits.planned_bytes, Error::MemoryAllocationFailed,
      "its tensors need %llu bytes (planned memory %llu, mutable buffers %llu, other outputs "
      "%llu), and the limit planned_bytes is %llu. Use a higher limit if you trust the file, or "
      "export the model for smaller bounds",
      number(total), number(pools), number(buffers), number(outputs),
      number(state_->limits.planned_bytes));
  return Error::Ok;
}

Error MethodLoader::check_backends() const {
  std::set<std::string> missing;
  for (const DelegateMeta& delegate : state_->meta.delegates) {
    BackendInterface* backend = find_backend(delegate.backend_id);
    if (!backend) {
      PTERON_RETURN_IF_ERROR(open_backend(delegate.backend_id));
      backend = find_backend(delegate.backend_id);
    }
    if (!backend) {
      missing.emplace(delegate.backend_id);
      continue;
    }
    std::string reason;
    PTERON_CHECK_OR_RETURN(backend->is_available(&reason), Error::NotSupported,
                           "backend %.*s cannot run on this machine: %s",
                           static_cast<int>(delegate.backend_id.size()), delegate.backend_id.data(),
                           reason.c_str());
  }
  if (missing.empty()) return Error::Ok;
  const std::vector<std::string> ids = registered_backends();
  return make_error(Error::NotFound,
                    "its backends are not all registered; missing: %s; registered: %s. Link them "
                    "into the program, or open their libraries",
                    join(missing).c_str(),
                    join(std::set<std::string>(ids.begin(), ids.end())).c_str());
}

Error MethodLoader::check_kernels() const {
  std::set<std::string> missing;
  for (const std::string& name : state_->meta.operators) {
    if (!find_kernel(name)) missing.insert(name);
  }
  if (missing.empty()) return Error::Ok;
  return make_error(Error::OperatorMissing,
                    "%zu kernels are not registered: %s. Link the library that has them, or lower "
                    "the model so that a delegate takes these operators",
                    missing.size(), join(missing).c_str());
}

Error MethodLoader::allocate_pools() {
  if (options_.separate_tensors) return Error::Ok;
  const std::vector<PoolMeta>& pools = state_->meta.pools;
  size_t cpu_nbytes = 0;
  for (const PoolMeta& pool : pools) {
    if (pool.device.type == DeviceType::CPU) cpu_nbytes += round_up(pool.nbytes);
  }
  PTERON_ASSIGN_OR_RETURN(state_->cpu_memory, PlannedBuffer::allocate(cpu_nbytes, Device{}));
  uint8_t* next = state_->cpu_memory.data();
  pools_.push_back(nullptr);  // ids start at 1
  for (const PoolMeta& pool : pools) {
    if (pool.device.type == DeviceType::CPU) {
      pools_.push_back(next);
      if (next) next += round_up(pool.nbytes);
    } else {
      PTERON_ASSIGN_OR_RETURN(PlannedBuffer memory,
                              PlannedBuffer::allocate(pool.nbytes, pool.device));
      pools_.push_back(memory.data());
      state_->other_memory.push_back(std::move(memory));
    }
  }
  return Error::Ok;
}

Error MethodLoader::make_tensors() {
  const auto& values = *method_.values();
  state_->values.resize(values.size());
  ErrorList errors;
  // Mutable buffers first: other values may alias them.
  for (uoffset_t i = 0; i < values.size(); ++i) {
    const schema::Tensor* const source = values[i]->value_as_Tensor();
    if (!source) continue;
    PTERON_ASSIGN_OR_RETURN(Tensor tensor, make_tensor(*source, options_.devices));
    const TensorStorage storage = TensorStorage::of(*source);
    if (storage.is_mutable_buffer()) errors.add(add_mutable_buffer(storage, tensor));
    state_->values[i] = EValue(std::move(tensor));
  }
  PTERON_RETURN_IF_ERROR(errors.to_error(""));
  // One buffer may be several values.
  auto& buffers = state_->mutable_buffers;
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  std::sort(mutable_ranges_.begin(), mutable_ranges_.end());
  for (uoffset_t i = 0; i < values.size(); ++i) {
    const schema::Tensor* const source = values[i]->value_as_Tensor();
    if (source) errors.add(set_address(TensorStorage::of(*source), &state_->values[i].tensor()));
  }
  return errors.to_error("");
}

Error MethodLoader::add_mutable_buffer(const TensorStorage& storage, const Tensor& tensor) {
  Span<const uint8_t> initial;
  if (storage.contents != TensorStorage::Contents::None) {
    PTERON_ASSIGN_OR_RETURN(initial, contents_of(storage, tensor));
  }
  PTERON_ASSIGN_OR_RETURN(Session::Buffer* const buffer,
                          state_->session->find_or_add(storage.name, tensor, initial));
  state_->mutable_buffers.push_back(buffer);
  if (tensor.nbytes() == 0) return Error::Ok;
  mutable_ranges_.push_back({storage.memory_id, storage.offset, storage.offset + tensor.nbytes(),
                             Session::tensor(*buffer).data_as<uint8_t>()});
  return Error::Ok;
}

Result<Span<const uint8_t>> MethodLoader::contents_of(const TensorStorage& storage,
                                                      const Tensor& tensor) const {
  if (storage.contents == TensorStorage::Contents::External) {
    return find_external_tensor(data_.named_data(), storage.name, tensor);
  }
  const IndexedData& source = storage.planned ? data_.initial_values() : data_.constants();
  return source.get(storage.data_index, tensor.nbytes());
}

Error MethodLoader::set_address(const TensorStorage& storage, Tensor* tensor) {
  if (storage.is_unset()) return Error::Ok;
  if (storage.is_constant()) {
    PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> bytes, contents_of(storage, *tensor));
    tensor->set_constant_data(bytes.data(), bytes.size());
    return Error::Ok;
  }
  if (uint8_t* const data = address_in_session(storage)) {
    tensor->set_data(data, tensor->nbytes());
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(uint8_t* const planned, planned_address(storage, *tensor));
  tensor->set_data(planned, tensor->nbytes());
  if (storage.contents == TensorStorage::Contents::None) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> bytes, contents_of(storage, *tensor));
  state_->initial_values.push_back({tensor->data(), bytes, tensor->device()});
  return Error::Ok;
}

Result<uint8_t*> MethodLoader::planned_address(const TensorStorage& storage, const Tensor& tensor) {
  if (!options_.separate_tensors) {
    uint8_t* const pool = pools_[storage.memory_id];
    return pool ? pool + storage.offset : nullptr;  // an empty one has no address
  }
  uint8_t*& data = separate_[{storage.memory_id, storage.offset, tensor.nbytes()}];
  if (!data) {
    PTERON_ASSIGN_OR_RETURN(PlannedBuffer memory,
                            PlannedBuffer::allocate(tensor.nbytes(), tensor.device()));
    data = memory.data();
    state_->other_memory.push_back(std::move(memory));
  }
  return data;
}

uint8_t* MethodLoader::address_in_session(const TensorStorage& storage) const {
  // Ranges are equal or disjoint: finds the last one that starts at or before this.
  const MutableRange wanted{storage.memory_id, storage.offset, 0, nullptr};
  const auto next = std::upper_bound(mutable_ranges_.begin(), mutable_ranges_.end(), wanted);
  if (next == mutable_ranges_.begin()) return nullptr;
  const MutableRange& range = *std::prev(next);
  if (range.memory_id != storage.memory_id || storage.offset >= range.end) return nullptr;
  return range.data + (storage.offset - range.begin);
}

void MethodLoader::make_other_values() {
  using schema::Value;
  const auto& values = *method_.values();
  for (uoffset_t i = 0; i < values.size(); ++i) {
    const schema::EValue& source = *values[i];
    EValue& slot = state_->values[i];
    switch (source.value_type()) {
      case Value::Int:
        slot = EValue(source.value_as_Int()->value());
        break;
      case Value::Bool:
        slot = EValue(source.value_as_Bool()->value());
        break;
      case Value::Double:
        slot = EValue(source.value_as_Double()->value());
        break;
      case Value::String:
        slot = EValue(source.value_as_String()->value()->string_view());
        break;
      case Value::IntList:
        slot = EValue(IntList{pointers_to(source.value_as_IntList()->items())});
        break;
      case Value::TensorList:
        slot = EValue(TensorList{pointers_to(source.value_as_TensorList()->items())});
        break;
      case Value::OptionalTensorList:
        slot =
            EValue(OptionalTensorList{pointers_to(source.value_as_OptionalTensorList()->items())});
        break;
      case Value::DoubleList: {
        const auto* const items = source.value_as_DoubleList()->items();
        slot = EValue(DoubleList{items ? Span<const double>(items->data(), items->size())
                                       : Span<const double>()});
        break;
      }
      case Value::BoolList: {
        // On the wire any non-zero byte is true, in C++ only 1.
        const auto* const items = source.value_as_BoolList()->items();
        const size_t count = items ? items->size() : 0;
        auto copy = std::make_unique<bool[]>(count);
        for (size_t k = 0; k < count; ++k) copy[k] = items->Get(static_cast<uoffset_t>(k)) != 0;
        slot = EValue(BoolList{{copy.get(), count}});
        state_->bool_lists.push_back(std::move(copy));
        break;
      }
      default:
        break;  // None, and tensors that exist already
    }
  }
}

template <typename Item>
Span<EValue* const> MethodLoader::pointers_to(const flatbuffers::Vector<Item>* indices) {
  std::vector<EValue*> pointers;
  if (indices) {
    pointers.reserve(indices->size());
    for (const int64_t index : *indices) {
      pointers.push_back(index < 0 ? nullptr : &state_->values[index]);
    }
  }
  state_->pointers.push_back(std::move(pointers));
  return state_->pointers.back();
}

}  // namespace pteron
