#include "pteron/runtime/program_reader/value_checks.h"

#include <algorithm>

#include "pteron/runtime/program_reader/flatbuffer_verifier.h"

namespace pteron {
namespace {

using flatbuffers::uoffset_t;
using ull = unsigned long long;

}  // namespace

ValueChecks::ValueChecks(const ProgramData& data, const schema::Method& method, ErrorList* errors)
    : data_(data), method_(method), errors_(errors), name_(method.name()->str()) {}

void ValueChecks::check() {
  if (!method_.values()) {
    errors_->add("method %s: it has no values", name_.c_str());
    return;
  }
  check_pools();
  for (size_t i = 0; i < size(); ++i) check_value(i);
  check_mutable_buffers();
}

schema::Value ValueChecks::kind(size_t index) const {
  return method_.values()->Get(static_cast<uoffset_t>(index))->value_type();
}

const schema::Tensor* ValueChecks::tensor(size_t index) const {
  return method_.values()->Get(static_cast<uoffset_t>(index))->value_as_Tensor();
}

bool ValueChecks::is_unset_tensor(size_t index) const {
  const schema::Tensor* const found = tensor(index);
  if (!found || !TensorStorage::of(*found).is_unset()) return false;
  return std::find(found->sizes()->begin(), found->sizes()->end(), 0) == found->sizes()->end();
}

void ValueChecks::check_pools() {
  const auto* const sizes = method_.buffer_sizes();
  if (!sizes || sizes->size() == 0 || !is_aligned(sizes)) {
    errors_->add("method %s: it does not say how much memory is planned", name_.c_str());
    return;
  }
  uint64_t total = 0;
  for (uoffset_t i = 0; i < sizes->size(); ++i) {
    if (sizes->Get(i) < 0 || __builtin_add_overflow(total, uint64_t(sizes->Get(i)), &total) ||
        total > INT64_MAX) {
      errors_->add("method %s: buffer %u has %lld bytes", name_.c_str(), i,
                   static_cast<long long>(sizes->Get(i)));
      return;
    }
  }
  pool_devices_.resize(sizes->size());
  if (!method_.buffer_devices()) return;
  std::vector<bool> seen(sizes->size());
  for (const schema::BufferDevice* const entry : *method_.buffer_devices()) {
    const int32_t index = entry->buffer_index();
    const Device device{static_cast<DeviceType>(entry->device_type()), entry->device_index()};
    if (index < 1 || static_cast<size_t>(index) >= seen.size() || seen[index]) {
      errors_->add("method %s: a device is given for buffer %d of %zu%s", name_.c_str(), index,
                   seen.size() - 1,
                   index >= 1 && static_cast<size_t>(index) < seen.size() ? ", twice" : "");
    } else if (!is_valid(device.type) || device.index < 0) {
      errors_->add("method %s: buffer %d is on device %d:%d", name_.c_str(), index,
                   static_cast<int>(device.type), device.index);
    } else {
      seen[index] = true;
      pool_devices_[index] = device.type == DeviceType::CPU ? Device{} : device;
    }
  }
}

void ValueChecks::check_value(size_t index) {
  const schema::EValue& value = *method_.values()->Get(static_cast<uoffset_t>(index));
  using schema::Value;
  if (value.value_type() < Value::Null || value.value_type() > Value::OptionalTensorList) {
    errors_->add("method %s: value %zu has unknown kind %d", name_.c_str(), index,
                 static_cast<int>(value.value_type()));
    return;
  }
  if (!value.value() && value.value_type() != Value::Null) {
    errors_->add("method %s: value %zu is empty", name_.c_str(), index);
    return;
  }
  switch (value.value_type()) {
    case Value::Tensor:
      check_tensor(index, *value.value_as_Tensor());
      break;
    case Value::String:
      if (!value.value_as_String()->value()) {
        errors_->add("method %s: value %zu is a string without text", name_.c_str(), index);
      }
      break;
    case Value::IntList:
      check_items(index, value.value_as_IntList()->items(), Value::Int, false);
      break;
    case Value::TensorList:
      check_items(index, value.value_as_TensorList()->items(), Value::Tensor, false);
      break;
    case Value::OptionalTensorList:
      check_items(index, value.value_as_OptionalTensorList()->items(), Value::Tensor, true);
      break;
    case Value::DoubleList:
      if (!is_aligned(value.value_as_DoubleList()->items())) {
        errors_->add("method %s: value %zu is misaligned", name_.c_str(), index);
      }
      break;
    default:
      break;  // literals; an absent vector of them is an empty list
  }
}

template <typename Item>
void ValueChecks::check_items(size_t index, const flatbuffers::Vector<Item>* items,
                              schema::Value expected, bool optional) {
  if (!items) return;
  if (!is_aligned(items)) {
    errors_->add("method %s: value %zu is misaligned", name_.c_str(), index);
    return;
  }
  for (uoffset_t i = 0; i < items->size(); ++i) {
    const int64_t item = items->Get(i);
    if (optional && item == -1) continue;
    if (item < 0 || static_cast<uint64_t>(item) >= size()) {
      errors_->add("method %s: item %u of value %zu is value %lld of %zu", name_.c_str(), i, index,
                   static_cast<long long>(item), size());
    } else if (kind(item) != expected) {
      errors_->add("method %s: item %u of value %zu is value %lld, %s, expected %s", name_.c_str(),
                   i, index, static_cast<long long>(item), schema::EnumNameValue(kind(item)),
                   schema::EnumNameValue(expected));
    }
  }
}

void ValueChecks::check_tensor(size_t index, const schema::Tensor& tensor) {
  const Result<Tensor> made = make_tensor(tensor);
  if (!made.ok()) {
    errors_->add(made.error().code(), "method %s: value %zu, a tensor: %s", name_.c_str(), index,
                 made.error().message().c_str());
    return;
  }
  const TensorStorage storage = TensorStorage::of(tensor);
  if (storage.planned) check_planned(index, storage, *made);
  if (storage.contents == TensorStorage::Contents::External && storage.name.empty()) {
    errors_->add("method %s: value %zu is external and has no name", name_.c_str(), index);
  }
  if (storage.is_constant() && storage.device.type != DeviceType::CPU) {
    errors_->add("method %s: value %zu is a constant on %s, where no file can be", name_.c_str(),
                 index, describe(storage.device).c_str());
  }
  if (storage.contents != TensorStorage::Contents::InFile) return;
  const IndexedData& source = storage.planned ? data_.initial_values() : data_.constants();
  const Result<Span<const uint8_t>> bytes = source.get(storage.data_index, made->nbytes());
  if (!bytes.ok()) {
    errors_->add("method %s: value %zu, %s: %s", name_.c_str(), index, made->describe().c_str(),
                 bytes.error().message().c_str());
  } else if (!storage.planned && made->nbytes() > 0 &&
             (bytes->data() - data_.file().bytes().data()) % element_size(made->dtype()) != 0) {
    errors_->add(
        "method %s: value %zu, %s: its offset in the file is no multiple of its element size",
        name_.c_str(), index, made->describe().c_str());
  }
}

void ValueChecks::check_planned(size_t index, const TensorStorage& storage, const Tensor& tensor) {
  if (storage.memory_id == 0 || storage.memory_id >= pool_devices_.size()) {
    errors_->add("method %s: value %zu is planned in buffer %u of %zu", name_.c_str(), index,
                 storage.memory_id, pool_devices_.empty() ? 0 : pool_devices_.size() - 1);
    return;
  }
  const uint64_t pool_nbytes =
      static_cast<uint64_t>(method_.buffer_sizes()->Get(storage.memory_id));
  const uint64_t nbytes = tensor.nbytes();
  if (storage.offset > pool_nbytes || nbytes > pool_nbytes - storage.offset) {
    errors_->add("method %s: value %zu (%llu bytes at %llu) goes beyond buffer %u of %llu bytes",
                 name_.c_str(), index, static_cast<ull>(nbytes), static_cast<ull>(storage.offset),
                 storage.memory_id, static_cast<ull>(pool_nbytes));
    return;
  }
  if (storage.offset % element_size(tensor.dtype()) != 0) {
    errors_->add("method %s: value %zu, %s, is planned at %llu, no multiple of its element size",
                 name_.c_str(), index, tensor.describe().c_str(), static_cast<ull>(storage.offset));
  }
  const Device pool_device = pool_devices_[storage.memory_id];
  if (pool_device != storage.device) {
    errors_->add("method %s: value %zu is on %s, planned in buffer %u on %s", name_.c_str(), index,
                 describe(storage.device).c_str(), storage.memory_id,
                 describe(pool_device).c_str());
  }
  if (storage.is_mutable_buffer() && tensor.dynamism() != ShapeDynamism::Static) {
    errors_->add("method %s: mutable buffer %.*s has no static shape", name_.c_str(),
                 static_cast<int>(storage.name.size()), storage.name.data());
  }
  if (nbytes > 0) {
    ranges_.push_back({storage.memory_id, storage.offset, storage.offset + nbytes, index,
                       storage.is_mutable_buffer()});
  }
}

// A value that overlaps a mutable buffer must be the buffer or lie within it.
void ValueChecks::check_mutable_buffers() {
  std::sort(ranges_.begin(), ranges_.end(), [](const PlannedRange& a, const PlannedRange& b) {
    if (a.memory_id != b.memory_id) return a.memory_id < b.memory_id;
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;
    return a.is_mutable_buffer > b.is_mutable_buffer;
  });
  const PlannedRange* buffer = nullptr;   // the last one seen
  const PlannedRange* longest = nullptr;  // the maximum end of those before
  const auto name_of_value = [&](const PlannedRange& range) {
    return TensorStorage::of(*tensor(range.index)).name;
  };
  for (const PlannedRange& range : ranges_) {
    if (longest && longest->memory_id != range.memory_id) buffer = longest = nullptr;
    const bool in_buffer = buffer && range.begin < buffer->end;
    const bool same_buffer =
        in_buffer && range.is_mutable_buffer && name_of_value(range) == name_of_value(*buffer);
    if (in_buffer && (range.end > buffer->end || (range.is_mutable_buffer && !same_buffer))) {
      errors_->add("method %s: values %zu and %zu overlap, and the first is a mutable buffer",
                   name_.c_str(), buffer->index, range.index);
    }
    if (range.is_mutable_buffer && !in_buffer) {
      if (longest && range.begin < longest->end) {
        errors_->add("method %s: values %zu and %zu overlap, and the second is a mutable buffer",
                     name_.c_str(), longest->index, range.index);
      }
      buffer = &range;
    }
    if (!longest || range.end > longest->end) longest = &range;
  }
}

}  // namespace pteron
