#include "pteron/backends/aoti/ops/tests/call.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::aoti::conformance {
namespace {

using slim::DType;
using slim::SlimTensor;

// Of a case that is not as call.h says, or of memory: the tests end there.
template <typename T>
T need(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

void need(const Error& error) {
  if (!error.ok()) throw std::runtime_error(error.message());
}

std::vector<int64_t> list(const Json& tensor, const char* key) {
  return tensor.at(key).get<std::vector<int64_t>>();
}

int64_t numel_of(const Json& tensor) {
  int64_t numel = 1;
  for (const int64_t size : list(tensor, "sizes")) numel *= size;
  return numel;
}

bool is_integer(DType dtype) { return !slim::is_floating_point(dtype) && !slim::is_complex(dtype); }

// What a case computes with is none of these.
Scalar poison(DType dtype) {
  return is_integer(dtype) ? Scalar::of(int64_t{113}) : Scalar::of({std::nan(""), std::nan("")});
}

// One dimension of bytes, which live as long as it is used.
slim::TensorPtr as_bytes(std::vector<unsigned char>& bytes) {
  const int64_t size = static_cast<int64_t>(bytes.size()), one = 1;
  return need(
      slim::make_tensor_from_blob(bytes.data(), {&size, 1}, {&one, 1}, 0, DType::Byte, Device{}));
}

// Calls body(position in the storage) for the elements, row-major.
template <typename Body>
void for_each_position(Span<const int64_t> sizes, Span<const int64_t> strides, int64_t offset,
                       const Body& body) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  for (int64_t i = 0; i < numel; ++i) {
    int64_t at = offset, rest = i;
    for (size_t d = sizes.size(); d-- > 0;) {
      at += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    body(at);
  }
}

}  // namespace

DType dtype_of(const Json& tensor) {
  const std::string name = tensor.at("dtype");
  for (int32_t number = 0; number < 128; ++number) {
    DType dtype;
    if (slim::to_dtype(number, &dtype) && name == slim::name_of(dtype)) return dtype;
  }
  throw std::runtime_error("no dtype " + name);
}

std::vector<int64_t> strides_of(const Json& tensor) {
  if (tensor.contains("strides")) return list(tensor, "strides");
  const std::vector<int64_t> sizes = list(tensor, "sizes");
  std::vector<int64_t> strides(sizes.size());
  slim::contiguous_strides({sizes.data(), sizes.size()}, strides.data());
  return strides;
}

std::vector<Scalar> elements_of(const Json& tensor) {
  const DType dtype = dtype_of(tensor);
  const auto element = [&](size_t i) {
    if (tensor.contains("formula")) {
      const std::vector<double> f = tensor["formula"];
      const int64_t residue =
          (static_cast<int64_t>(f[0]) * static_cast<int64_t>(i) + static_cast<int64_t>(f[1])) %
          static_cast<int64_t>(f[2]);
      return Scalar::of((static_cast<double>(residue) + f[3]) * f[4]);
    }
    const Json& data = tensor.at("data");
    const Json& value = data.at(data.size() == 1 ? 0 : i);
    if (value.is_array()) return Scalar::of({number<double>(value[0]), number<double>(value[1])});
    if (!is_integer(dtype)) return Scalar::of(number<double>(value));
    return Scalar::of(value.is_boolean() ? int64_t{value.get<bool>()} : value.get<int64_t>());
  };
  std::vector<Scalar> elements(static_cast<size_t>(numel_of(tensor)));
  for (size_t i = 0; i < elements.size(); ++i) {
    // As the dtype rounds it.
    alignas(16) unsigned char bytes[16];
    slim::store_scalar(dtype, bytes, element(i));
    elements[i] = slim::load_scalar(dtype, bytes);
  }
  return elements;
}

Call::~Call() {
  for (AtenTensorHandle* result : results_) delete *result;
}

const Json& Call::next() {
  if (position_ >= arguments_.size()) throw std::runtime_error("too few arguments");
  argument_tensors_.push_back(nullptr);
  return arguments_[position_++];
}

AtenTensorHandle Call::tensor(const Json& value) {
  if (value.is_null()) return nullptr;
  const DType dtype = dtype_of(value);
  const std::vector<int64_t> sizes = list(value, "sizes"), strides = strides_of(value);
  const Span<const int64_t> shape(sizes.data(), sizes.size()),
      steps(strides.data(), strides.size());
  const int64_t offset = value.value("offset", int64_t{0});
  slim::StorageRef storage;
  if (value.contains("of")) {
    storage = argument_tensors_.at(value["of"].get<size_t>())->storage();
  } else {
    const size_t item = slim::element_size(dtype);
    const size_t nbytes =
        need(slim::storage_nbytes(shape, steps, dtype)) + static_cast<size_t>(offset) * item;
    std::vector<unsigned char> bytes((nbytes / item + 2) * item);
    for (size_t at = 0; at < bytes.size(); at += item) {
      slim::store_scalar(dtype, &bytes[at], poison(dtype));
    }
    const std::vector<Scalar> elements = elements_of(value);
    size_t i = 0;
    for_each_position(shape, steps, offset, [&](int64_t at) {
      slim::store_scalar(dtype, &bytes[static_cast<size_t>(at) * item], elements[i++]);
    });
    const slim::TensorPtr host = as_bytes(bytes);
    slim::TensorPtr there =
        need(slim::make_tensor(host->sizes(), host->strides(), DType::Byte, device_));
    need(slim::copy_tensor(*there, *host));
    storage = there->storage();
    memory_.push_back({std::move(there), std::move(bytes)});
  }
  auto tensor = std::make_unique<SlimTensor>();
  need(tensor->set(storage, shape, steps, offset, dtype));
  tensors_.push_back(std::move(tensor));
  if (!argument_tensors_.back()) argument_tensors_.back() = tensors_.back().get();
  return tensors_.back().get();
}

AtenTensorHandle* Call::add_result() {
  results_.push_back(keep<AtenTensorHandle>(nullptr));
  return results_.back();
}

std::vector<unsigned char> Call::read_bytes(const SlimTensor& tensor) const {
  std::vector<unsigned char> bytes(tensor.storage()->nbytes);
  if (bytes.empty()) return bytes;
  const slim::TensorPtr host = as_bytes(bytes);
  SlimTensor raw;
  need(raw.set(tensor.storage(), host->sizes(), host->strides(), 0, DType::Byte));
  need(slim::copy_tensor(*host, raw));
  return bytes;
}

std::vector<Scalar> Call::read(const SlimTensor& tensor) const {
  const std::vector<unsigned char> bytes = read_bytes(tensor);
  std::vector<Scalar> elements;
  elements.reserve(static_cast<size_t>(tensor.numel()));
  for_each_position(tensor.sizes(), tensor.strides(), tensor.storage_offset(), [&](int64_t at) {
    elements.push_back(
        slim::load_scalar(tensor.dtype(), &bytes.at(static_cast<size_t>(at) * tensor.item_size())));
  });
  return elements;
}

bool Call::wrote_only(int written) const {
  const SlimTensor* target =
      written < 0 ? nullptr : argument_tensors_.at(static_cast<size_t>(written));
  for (const Memory& memory : memory_) {
    std::vector<unsigned char> now = read_bytes(*memory.bytes);
    if (target && target->storage().get() == memory.bytes->storage().get()) {
      const size_t item = target->item_size();
      for_each_position(target->sizes(), target->strides(), target->storage_offset(),
                        [&](int64_t at) {
                          const size_t byte = static_cast<size_t>(at) * item;
                          std::memcpy(&now[byte], &memory.before[byte], item);
                        });
    }
    if (now.size() < memory.before.size() ||
        std::memcmp(now.data(), memory.before.data(), memory.before.size()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace pteron::aoti::conformance
