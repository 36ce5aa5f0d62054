#include "pteron/runtime/executor/tests/program_spec.h"

#include <numeric>

namespace pteron::testing {
namespace {

constexpr size_t kConstantAlignment = 16;

std::vector<uint8_t> contiguous(size_t dim) {
  std::vector<uint8_t> order(dim);
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

uint32_t add_indexed(ProgramSpec* program, SegmentOffsetsSpec* table, const Bytes& bytes) {
  Bytes& segment = program->segments[table->segment_index];
  while (segment.size() % kConstantAlignment != 0) segment.push_back(0);
  table->offsets->push_back(segment.size());
  segment.insert(segment.end(), bytes.begin(), bytes.end());
  return static_cast<uint32_t>(table->offsets->size()) - 1;
}

}  // namespace

TensorSpec TensorSpec::input(std::vector<int32_t> sizes) {
  TensorSpec spec;
  spec.dim_order = contiguous(sizes.size());
  spec.sizes = std::move(sizes);
  return spec;
}

TensorSpec TensorSpec::planned(std::vector<int32_t> sizes, uint64_t offset, uint32_t memory_id) {
  TensorSpec spec = input(std::move(sizes));
  spec.has_allocation = true;
  spec.memory_id = memory_id;
  spec.offset = offset;
  return spec;
}

TensorSpec TensorSpec::constant(std::vector<int32_t> sizes, uint32_t data_index) {
  TensorSpec spec = input(std::move(sizes));
  spec.data_index = data_index;
  return spec;
}

TensorSpec TensorSpec::external(std::vector<int32_t> sizes, std::string name) {
  TensorSpec spec = input(std::move(sizes));
  spec.has_extra = true;
  spec.location = 1;
  spec.name = std::move(name);
  return spec;
}

TensorSpec TensorSpec::mutable_buffer(std::vector<int32_t> sizes, uint64_t offset,
                                      std::string name) {
  TensorSpec spec = planned(std::move(sizes), offset);
  spec.has_extra = true;
  spec.name = std::move(name);
  return spec;
}

TensorSpec& TensorSpec::with_dtype(ScalarType dtype) {
  scalar_type = static_cast<int8_t>(dtype);
  return *this;
}

TensorSpec& TensorSpec::bounded() {
  dynamism = 1;
  return *this;
}

int MethodSpec::add(ValueSpec value) {
  values->push_back(std::move(value));
  return static_cast<int>(values->size()) - 1;
}

int MethodSpec::add(std::vector<int64_t> boxed) {
  IntListSpec list;
  list.items.emplace();
  for (const int64_t item : boxed) list.items->push_back(add(ValueSpec(item)));
  return add(ValueSpec(std::move(list)));
}

int MethodSpec::kernel(const std::string& qualified_name, std::vector<int32_t> args) {
  const size_t dot = qualified_name.find('.');
  OperatorSpec op{qualified_name.substr(0, dot), std::nullopt};
  if (dot != std::string::npos) op.overload = qualified_name.substr(dot + 1);
  operators.push_back(std::move(op));
  return instruction(KernelSpec{static_cast<int32_t>(operators.size()) - 1, std::move(args)});
}

int MethodSpec::instruction(InstructionSpec instruction) {
  chain().push_back(std::move(instruction));
  return static_cast<int>(chain().size()) - 1;
}

MethodSpec& ProgramSpec::add_method(const std::string& name) {
  methods->emplace_back();
  methods->back().name = name;
  return methods->back();
}

size_t ProgramSpec::add_segment(Bytes bytes) {
  segments.push_back(std::move(bytes));
  return segments.size() - 1;
}

uint32_t ProgramSpec::add_constant(const Bytes& bytes) {
  if (!constant_segment) {
    const size_t index = add_segment({});
    constant_segment = SegmentOffsetsSpec{static_cast<uint32_t>(index), std::vector<uint64_t>{0}};
  }
  return add_indexed(this, &*constant_segment, bytes);
}

uint32_t ProgramSpec::add_initial_value(const Bytes& bytes) {
  if (mutable_segments.empty()) {
    const size_t index = add_segment({});
    mutable_segments.push_back({static_cast<uint32_t>(index), std::vector<uint64_t>{0}});
  }
  return add_indexed(this, &mutable_segments[0], bytes);
}

void ProgramSpec::add_named(const std::string& key, Bytes bytes) {
  named_data.push_back({key, static_cast<uint32_t>(add_segment(std::move(bytes)))});
}

void TensorDataSpec::add_tensor(const std::string& key, std::vector<int32_t> sizes, Bytes bytes) {
  Layout layout;
  layout.dim_order = contiguous(sizes.size());
  layout.sizes = std::move(sizes);
  segments.push_back(std::move(bytes));
  entries.push_back({key, static_cast<uint32_t>(segments.size()) - 1, std::move(layout)});
}

void TensorDataSpec::add_blob(const std::string& key, Bytes bytes) {
  segments.push_back(std::move(bytes));
  entries.push_back({key, static_cast<uint32_t>(segments.size()) - 1, std::nullopt});
}

}  // namespace pteron::testing
