#include "pteron/runtime/executor/tests/program_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "pteron/runtime/platform/sha256.h"
#include "pteron/runtime/schema/program_generated.h"
#include "pteron/runtime/schema/tensor_data_generated.h"

namespace pteron::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr size_t kSegmentAlignment = 128;

size_t round_up(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

template <typename T>
Offset<Vector<T>> vector_of(FlatBufferBuilder& builder, const Maybe<std::vector<T>>& items) {
  return items ? builder.CreateVector(*items) : Offset<Vector<T>>(0);
}

// A vector of what `write` makes of each item, or none.
template <typename Items, typename Write>
auto tables_of(FlatBufferBuilder& builder, const Items& items, const Write& write) {
  std::vector<decltype(write(*items.begin()))> tables;
  for (const auto& item : items) tables.push_back(write(item));
  return builder.CreateVector(tables);
}
template <typename T, typename Write>
auto tables_of(FlatBufferBuilder& builder, const Maybe<std::vector<T>>& items, const Write& write) {
  return items ? tables_of(builder, *items, write) : decltype(tables_of(builder, *items, write))(0);
}

Offset<flatbuffers::String> string_of(FlatBufferBuilder& builder, const Maybe<std::string>& text) {
  return text ? builder.CreateString(*text) : Offset<flatbuffers::String>(0);
}

Offset<schema::Tensor> write_tensor(FlatBufferBuilder& builder, const TensorSpec& spec) {
  const auto sizes = vector_of(builder, spec.sizes);
  const auto dim_order = vector_of(builder, spec.dim_order);
  Offset<schema::AllocationInfo> allocation(0);
  if (spec.has_allocation) {
    allocation =
        schema::CreateAllocationInfo(builder, spec.memory_id, static_cast<uint32_t>(spec.offset),
                                     static_cast<uint32_t>(spec.offset >> 32));
  }
  Offset<schema::ExtraTensorInfo> extra(0);
  if (spec.has_extra) {
    const auto name = string_of(builder, spec.name);
    extra = schema::CreateExtraTensorInfo(
        builder, 0, name, static_cast<schema::TensorLocation>(spec.location),
        static_cast<schema::DeviceType>(spec.device_type), spec.device_index);
  }
  return schema::CreateTensor(builder, spec.scalar_type, spec.storage_offset, sizes, dim_order,
                              false, spec.data_index, allocation, spec.layout,
                              static_cast<schema::ShapeDynamism>(spec.dynamism), extra);
}

using UnionValue = std::pair<uint8_t, Offset<void>>;

template <typename Type, typename T>
UnionValue member(Type type, Offset<T> offset) {
  return {static_cast<uint8_t>(type), offset.Union()};
}

// Writes a union's member; `v` is the spec.
#define MEMBER(Union, Spec, Table, ...)                                               \
  UnionValue operator()([[maybe_unused]] const Spec& v) {                             \
    return member(schema::Union::Table, schema::Create##Table(builder, __VA_ARGS__)); \
  }

struct WriteValue {
  FlatBufferBuilder& builder;

  UnionValue operator()(NoneSpec) {
    return member(schema::Value::Null, schema::CreateNull(builder));
  }
  UnionValue operator()(const TensorSpec& v) {
    return member(schema::Value::Tensor, write_tensor(builder, v));
  }
  UnionValue operator()(RawUnionSpec v) { return {v.type, Offset<void>(0)}; }
  MEMBER(Value, int64_t, Int, v)
  MEMBER(Value, bool, Bool, v)
  MEMBER(Value, double, Double, v)
  MEMBER(Value, StringSpec, String, string_of(builder, v.value))
  MEMBER(Value, IntListSpec, IntList, vector_of(builder, v.items))
  MEMBER(Value, DoubleListSpec, DoubleList, vector_of(builder, v.items))
  MEMBER(Value, BoolListSpec, BoolList, vector_of(builder, v.items))
  MEMBER(Value, TensorListSpec, TensorList, vector_of(builder, v.items))
  MEMBER(Value, OptionalTensorListSpec, OptionalTensorList, vector_of(builder, v.items))
};

struct WriteCall {
  FlatBufferBuilder& builder;

  UnionValue operator()(RawUnionSpec v) { return {v.type, Offset<void>(0)}; }
  MEMBER(InstructionCall, KernelSpec, KernelCall, v.op, vector_of(builder, v.args))
  MEMBER(InstructionCall, DelegateCallSpec, DelegateCall, v.delegate, vector_of(builder, v.args))
  MEMBER(InstructionCall, MoveSpec, MoveCall, v.from, v.to)
  MEMBER(InstructionCall, JumpFalseSpec, JumpFalseCall, v.condition, v.destination)
  MEMBER(InstructionCall, FreeSpec, FreeCall, v.value)
};
#undef MEMBER

Offset<schema::Chain> write_chain(FlatBufferBuilder& builder, const ChainSpec& spec) {
  if (!spec) return schema::CreateChain(builder);
  const auto instructions = tables_of(builder, *spec, [&](const InstructionSpec& instruction) {
    const auto [type, call] = std::visit(WriteCall{builder}, instruction);
    return schema::CreateInstruction(builder, static_cast<schema::InstructionCall>(type), call);
  });
  return schema::CreateChain(builder, 0, 0, instructions);
}

Offset<schema::Delegate> write_delegate(FlatBufferBuilder& builder, const DelegateSpec& spec) {
  const auto id = string_of(builder, spec.id);
  Offset<schema::DelegateData> processed(0);
  if (spec.has_processed) {
    processed = schema::CreateDelegateData(
        builder, static_cast<schema::DelegateDataLocation>(spec.location), spec.index);
  }
  const auto specs = tables_of(builder, spec.compile_specs, [&](const auto& item) {
    const auto key = string_of(builder, item.first);
    return schema::CreateCompileSpec(builder, key, vector_of(builder, item.second));
  });
  return schema::CreateDelegate(builder, id, processed, specs);
}

Offset<schema::Method> write_method(FlatBufferBuilder& builder, const MethodSpec& spec) {
  const auto name = string_of(builder, spec.name);
  const auto values = tables_of(builder, spec.values, [&](const ValueSpec& value) {
    const auto [type, payload] = std::visit(WriteValue{builder}, value);
    return schema::CreateEValue(builder, static_cast<schema::Value>(type), payload);
  });
  const auto inputs = vector_of(builder, spec.inputs);
  const auto outputs = vector_of(builder, spec.outputs);
  const auto chains = tables_of(
      builder, spec.chains, [&](const ChainSpec& chain) { return write_chain(builder, chain); });
  const auto operators = tables_of(builder, spec.operators, [&](const OperatorSpec& op) {
    const auto op_name = string_of(builder, op.name);
    return schema::CreateOperator(builder, op_name, string_of(builder, op.overload));
  });
  const auto delegates = tables_of(builder, spec.delegates, [&](const DelegateSpec& delegate) {
    return write_delegate(builder, delegate);
  });
  const auto buffer_sizes = vector_of(builder, spec.buffer_sizes);
  Offset<Vector<Offset<schema::BufferDevice>>> devices(0);
  if (!spec.buffer_devices.empty()) {
    devices = tables_of(builder, spec.buffer_devices, [&](const BufferDeviceSpec& device) {
      return schema::CreateBufferDevice(builder, device.buffer_index,
                                        static_cast<schema::DeviceType>(device.device_type),
                                        device.device_index);
    });
  }
  const auto strings = [&](const Maybe<std::vector<std::string>>& names) {
    Offset<Vector<Offset<flatbuffers::String>>> offset(0);
    return names ? builder.CreateVectorOfStrings(*names) : offset;
  };
  const auto input_names = strings(spec.input_names);
  const auto output_names = strings(spec.output_names);
  const auto containers = schema::CreateContainerTypes(builder, 0, 0, input_names, output_names);
  return schema::CreateMethod(builder, name, containers, values, inputs, outputs, chains, operators,
                              delegates, buffer_sizes, devices);
}

Offset<Vector<Offset<schema::InlineBytes>>> write_inline(FlatBufferBuilder& builder,
                                                         const std::vector<Bytes>& blobs) {
  return tables_of(builder, blobs, [&](const Bytes& blob) {
    builder.ForceVectorAlignment(blob.size(), 1, 16);
    return schema::CreateInlineBytes(builder, builder.CreateVector(blob));
  });
}

Offset<schema::SegmentOffsets> write_offsets(FlatBufferBuilder& builder,
                                             const SegmentOffsetsSpec& spec) {
  return schema::CreateSegmentOffsets(builder, spec.segment_index,
                                      vector_of(builder, spec.offsets));
}

// Where each segment goes, from the segment base.
std::vector<RangeSpec> lay_out(const std::vector<Bytes>& segments) {
  std::vector<RangeSpec> ranges;
  uint64_t offset = 0;
  for (const Bytes& segment : segments) {
    offset = round_up(offset, kSegmentAlignment);
    ranges.push_back({offset, segment.size()});
    offset += segment.size();
  }
  return ranges;
}

template <typename T>
void store(Bytes* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof(T));
}

void store_digest(Bytes* bytes, size_t offset, const Bytes& of) {
  const Sha256Digest digest = sha256(of);
  std::copy(digest.begin(), digest.end(), bytes->begin() + offset);
}

// Puts header, FlatBuffers part and segments together.
Bytes assemble(const FlatBufferBuilder& builder, bool is_program,
               const std::vector<Bytes>& segments, const WriteOptions& options) {
  const uint8_t* const root = builder.GetBufferPointer();
  const size_t root_nbytes = builder.GetSize();
  if (!options.header) return Bytes(root, root + root_nbytes);

  const size_t fields_nbytes = is_program ? 32 : 40;
  const size_t table = 8 + fields_nbytes;
  const size_t header_nbytes =
      fields_nbytes + (options.integrity_table ? 40 + 32 * segments.size() : 0);
  const size_t inserted = round_up(header_nbytes, 16);
  Bytes file(root, root + root_nbytes);
  file.insert(file.begin() + 8, inserted, 0);
  uint32_t root_offset;
  std::memcpy(&root_offset, file.data(), sizeof(root_offset));
  store<uint32_t>(&file, 0, root_offset + static_cast<uint32_t>(inserted));

  const size_t flatbuffer_nbytes = file.size();
  const std::vector<RangeSpec> ranges = lay_out(segments);
  const uint64_t data_nbytes = ranges.empty() ? 0 : ranges.back().offset + ranges.back().size;
  const uint64_t base = segments.empty() ? 0 : round_up(flatbuffer_nbytes, kSegmentAlignment);
  std::memcpy(file.data() + 8, is_program ? "eh00" : "FH01", 4);
  store<uint32_t>(&file, 12, static_cast<uint32_t>(header_nbytes));
  if (is_program) {
    store<uint64_t>(&file, 16, flatbuffer_nbytes);
    store<uint64_t>(&file, 24, base);
    store<uint64_t>(&file, 32, data_nbytes);
  } else {
    store<uint64_t>(&file, 16, inserted);
    store<uint64_t>(&file, 24, flatbuffer_nbytes - inserted);
    store<uint64_t>(&file, 32, base);
    store<uint64_t>(&file, 40, data_nbytes);
  }
  if (options.integrity_table) {
    std::memcpy(file.data() + table, "PTI1", 4);
    store<uint32_t>(&file, table + 4, static_cast<uint32_t>(segments.size()));
    store_digest(&file, table + 8, file);  // the digests are still zero
    for (size_t i = 0; i < segments.size(); ++i) {
      store_digest(&file, table + 40 + 32 * i, segments[i]);
    }
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    file.resize(base + ranges[i].offset);
    file.insert(file.end(), segments[i].begin(), segments[i].end());
  }
  return file;
}

}  // namespace

Bytes write_program(const ProgramSpec& program, const WriteOptions& options) {
  FlatBufferBuilder builder;
  const auto methods = tables_of(builder, program.methods, [&](const MethodSpec& method) {
    return write_method(builder, method);
  });
  Offset<Vector<Offset<schema::InlineBytes>>> inline_constants(0);
  if (!program.inline_constants.empty()) {
    inline_constants = write_inline(builder, program.inline_constants);
  }
  Offset<Vector<Offset<schema::InlineBytes>>> inline_data(0);
  if (program.inline_delegate_data) {
    inline_data = write_inline(builder, *program.inline_delegate_data);
  }
  std::vector<RangeSpec> ranges = lay_out(program.segments);
  for (const auto& [index, range] : program.false_ranges) ranges.at(index) = range;
  const auto segments = tables_of(builder, ranges, [&](const RangeSpec& range) {
    return schema::CreateSegment(builder, range.offset, range.size);
  });
  Offset<schema::SegmentOffsets> constants(0);
  if (program.constant_segment) constants = write_offsets(builder, *program.constant_segment);
  const auto mutable_segments =
      tables_of(builder, program.mutable_segments,
                [&](const SegmentOffsetsSpec& spec) { return write_offsets(builder, spec); });
  const auto named_data = tables_of(builder, program.named_data, [&](const NamedDataSpec& spec) {
    const auto key = string_of(builder, spec.key);
    return schema::CreateNamedData(builder, key, spec.segment_index);
  });
  const auto root =
      schema::CreateProgram(builder, program.version, methods, inline_constants, inline_data,
                            segments, constants, mutable_segments, named_data);
  builder.Finish(root, schema::ProgramIdentifier());
  return assemble(builder, true, program.segments, options);
}

Bytes write_tensor_data(const TensorDataSpec& data, const WriteOptions& options) {
  FlatBufferBuilder builder;
  const auto segments = tables_of(builder, lay_out(data.segments), [&](const RangeSpec& range) {
    return schema::CreateTensorDataSegment(builder, range.offset, range.size);
  });
  const auto entries = tables_of(builder, data.entries, [&](const TensorDataSpec::Entry& entry) {
    const auto key = string_of(builder, entry.key);
    Offset<schema::TensorLayout> layout(0);
    if (entry.layout) {
      const auto sizes = vector_of(builder, entry.layout->sizes);
      const auto dim_order = vector_of(builder, entry.layout->dim_order);
      layout = schema::CreateTensorLayout(builder, entry.layout->scalar_type, sizes, dim_order);
    }
    return schema::CreateTensorDataEntry(builder, key, entry.segment_index, layout);
  });
  const auto root = schema::CreateTensorData(builder, data.version, segments, entries);
  builder.Finish(root, schema::TensorDataIdentifier());
  return assemble(builder, false, data.segments, options);
}

void repair_digests(Bytes* file) {
  if (file->size() < 64) return;
  const bool is_program = (*file)[4] == 'E';
  const size_t table = is_program ? 40 : 48;
  const auto number = [&](size_t offset) {
    uint64_t value;
    std::memcpy(&value, file->data() + offset, sizeof(value));
    return value;
  };
  const uint64_t end = number(16) + (is_program ? 0 : number(24));
  const uint64_t base = number(is_program ? 24 : 32);
  const uint64_t count = number(table) >> 32;  // behind "PTI1"
  const size_t digests = table + 8;
  if (end > file->size() || count > 64 || digests + 32 * (1 + count) > end) return;
  std::fill_n(file->begin() + digests, 32 * (1 + count), uint8_t{0});
  store_digest(file, digests, Bytes(file->begin(), file->begin() + end));

  std::vector<RangeSpec> ranges;
  flatbuffers::Verifier verifier(file->data(), end);
  const auto add = [&](const auto* segments) {
    if (!segments) return;
    for (const auto* segment : *segments) ranges.push_back({segment->offset(), segment->size()});
  };
  if (is_program && schema::VerifyProgramBuffer(verifier)) {
    add(schema::GetProgram(file->data())->segments());
  } else if (!is_program && schema::VerifyTensorDataBuffer(verifier)) {
    add(schema::GetTensorData(file->data())->segments());
  }
  for (size_t i = 0; i < std::min<size_t>(count, ranges.size()); ++i) {
    const auto [offset, size] = ranges[i];
    if (base > file->size() || offset > file->size() - base ||
        size > file->size() - base - offset) {
      continue;
    }
    const auto begin = file->begin() + base + offset;
    store_digest(file, digests + 32 * (1 + i), Bytes(begin, begin + size));
  }
}

std::string write_file(const std::string& name, const Bytes& bytes) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder ? folder : "/tmp") + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace pteron::testing
