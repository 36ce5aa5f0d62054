// What a program or data file of a test shall hold: every field can be given any value or be left
// out, right or wrong. program_writer.h writes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron::testing {

using Bytes = std::vector<uint8_t>;
template <typename T>
using Maybe = std::optional<T>;  // left out of the file when empty

struct TensorSpec {
  int8_t scalar_type = static_cast<int8_t>(ScalarType::Float);
  int32_t storage_offset = 0;
  Maybe<std::vector<int32_t>> sizes = std::vector<int32_t>{};
  Maybe<std::vector<uint8_t>> dim_order = std::vector<uint8_t>{};
  uint32_t data_index = 0;
  int8_t layout = 0;
  int8_t dynamism = 0;

  bool has_allocation = false;
  uint32_t memory_id = 0;
  uint64_t offset = 0;

  bool has_extra = false;
  Maybe<std::string> name;
  int8_t location = 0;
  int8_t device_type = 0;
  int8_t device_index = 0;

  // Static, contiguous, float32; change what should differ.
  static TensorSpec input(std::vector<int32_t> sizes);
  static TensorSpec planned(std::vector<int32_t> sizes, uint64_t offset, uint32_t memory_id = 1);
  static TensorSpec constant(std::vector<int32_t> sizes, uint32_t data_index);
  static TensorSpec external(std::vector<int32_t> sizes, std::string name);
  static TensorSpec mutable_buffer(std::vector<int32_t> sizes, uint64_t offset, std::string name);

  TensorSpec& with_dtype(ScalarType dtype);
  TensorSpec& bounded();
};

struct NoneSpec {};
struct StringSpec {
  Maybe<std::string> value;
};
struct IntListSpec {
  Maybe<std::vector<int64_t>> items;
};
struct DoubleListSpec {
  Maybe<std::vector<double>> items;
};
struct BoolListSpec {
  Maybe<std::vector<uint8_t>> items;
};
struct TensorListSpec {
  Maybe<std::vector<int32_t>> items;
};
struct OptionalTensorListSpec {
  Maybe<std::vector<int32_t>> items;
};
struct RawUnionSpec {
  uint8_t type = 0;
};  // a union member of any type, without a value

using ValueSpec = std::variant<NoneSpec, int64_t, bool, double, TensorSpec, StringSpec, IntListSpec,
                               DoubleListSpec, BoolListSpec, TensorListSpec, OptionalTensorListSpec,
                               RawUnionSpec>;

struct KernelSpec {
  int32_t op = 0;
  Maybe<std::vector<int32_t>> args;
};
struct DelegateCallSpec {
  int32_t delegate = 0;
  Maybe<std::vector<int32_t>> args;
};
struct MoveSpec {
  int32_t from = 0;
  int32_t to = 0;
};
struct JumpFalseSpec {
  int32_t condition = 0;
  int32_t destination = 0;
};
struct FreeSpec {
  int32_t value = 0;
};

using InstructionSpec =
    std::variant<KernelSpec, DelegateCallSpec, MoveSpec, JumpFalseSpec, FreeSpec, RawUnionSpec>;
using ChainSpec = Maybe<std::vector<InstructionSpec>>;

struct DelegateSpec {
  Maybe<std::string> id;
  bool has_processed = true;
  int8_t location = 1;
  uint32_t index = 0;
  std::vector<std::pair<Maybe<std::string>, Maybe<Bytes>>> compile_specs;
};

struct OperatorSpec {
  Maybe<std::string> name;
  Maybe<std::string> overload;
};
struct BufferDeviceSpec {
  int32_t buffer_index = 0;
  int8_t device_type = 0;
  int8_t device_index = 0;
};

struct MethodSpec {
  Maybe<std::string> name;
  Maybe<std::vector<ValueSpec>> values = std::vector<ValueSpec>{};
  Maybe<std::vector<int32_t>> inputs = std::vector<int32_t>{};
  Maybe<std::vector<int32_t>> outputs = std::vector<int32_t>{};
  Maybe<std::vector<ChainSpec>> chains = std::vector<ChainSpec>{std::vector<InstructionSpec>{}};
  std::vector<OperatorSpec> operators;
  Maybe<std::vector<DelegateSpec>> delegates = std::vector<DelegateSpec>{};
  Maybe<std::vector<int64_t>> buffer_sizes = std::vector<int64_t>{0, 1024};
  std::vector<BufferDeviceSpec> buffer_devices;
  Maybe<std::vector<std::string>> input_names;
  Maybe<std::vector<std::string>> output_names;

  // Each gives the index of what it added.
  int add(ValueSpec value);
  int add(std::vector<int64_t> boxed);  // an IntList of new Ints
  int kernel(const std::string& qualified_name, std::vector<int32_t> args);
  int instruction(InstructionSpec instruction);  // to the last chain

  TensorSpec& tensor(int value) { return std::get<TensorSpec>((*values)[value]); }
  std::vector<InstructionSpec>& chain() { return *chains->back(); }
};

struct SegmentOffsetsSpec {
  uint32_t segment_index = 0;
  Maybe<std::vector<uint64_t>> offsets;
};
struct NamedDataSpec {
  Maybe<std::string> key;
  uint32_t segment_index = 0;
};
struct RangeSpec {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct ProgramSpec {
  uint32_t version = 0;
  Maybe<std::vector<MethodSpec>> methods = std::vector<MethodSpec>{};
  std::vector<Bytes> inline_constants;
  Maybe<std::vector<Bytes>> inline_delegate_data = std::vector<Bytes>{};
  std::vector<Bytes> segments;
  std::map<size_t, RangeSpec> false_ranges;  // written instead of the true ones
  Maybe<SegmentOffsetsSpec> constant_segment;
  std::vector<SegmentOffsetsSpec> mutable_segments;
  std::vector<NamedDataSpec> named_data;

  MethodSpec& add_method(const std::string& name);
  size_t add_segment(Bytes bytes);
  // Adds to the constant (initial value) segment, made at the first call; gives the data index.
  uint32_t add_constant(const Bytes& bytes);
  uint32_t add_initial_value(const Bytes& bytes);
  void add_named(const std::string& key, Bytes bytes);
};

struct TensorDataSpec {
  struct Layout {
    int8_t scalar_type = static_cast<int8_t>(ScalarType::Float);
    Maybe<std::vector<int32_t>> sizes;
    Maybe<std::vector<uint8_t>> dim_order;
  };
  struct Entry {
    Maybe<std::string> key;
    uint32_t segment_index = 0;
    Maybe<Layout> layout;
  };

  uint32_t version = 0;
  std::vector<Bytes> segments;
  std::vector<Entry> entries;

  void add_tensor(const std::string& key, std::vector<int32_t> sizes, Bytes bytes);
  void add_blob(const std::string& key, Bytes bytes);
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* const data = reinterpret_cast<const uint8_t*>(values.data());
  return Bytes(data, data + values.size() * sizeof(T));
}
inline Bytes floats(const std::vector<float>& values) { return bytes_of(values); }
inline Bytes text(const std::string& value) { return Bytes(value.begin(), value.end()); }

}  // namespace pteron::testing
