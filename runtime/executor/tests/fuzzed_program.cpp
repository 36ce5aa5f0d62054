#include "pteron/runtime/executor/tests/fuzzed_program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "pteron/runtime/executor/describe.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron::testing {
namespace {

using Buffers = std::vector<Buffer>;

// Counts how far files got, and prints that at the end of a run of the fuzzer.
struct Counts {
  size_t of[4] = {};
  ~Counts() {
    std::fprintf(stderr, "refused %zu, loaded %zu, with a method %zu, ran %zu\n", of[0], of[1],
                 of[2], of[3]);
  }
};

EValue value_for(const ValueMeta& meta, Random& random, Buffers* buffers) {
  switch (meta.kind) {
    case ValueKind::Tensor: {
      std::vector<int64_t> sizes = meta.sizes;
      for (int64_t& size : sizes) {
        if (meta.dynamism != ShapeDynamism::Static)
          size = static_cast<int64_t>(below(random, size + 1));
      }
      Tensor tensor = *Tensor::make(meta.dtype, sizes, meta.dim_order, nullptr, meta.device);
      tensor.set_data(buffers->emplace_back(allocate(tensor.nbytes())).get(), tensor.nbytes());
      return EValue(tensor);
    }
    case ValueKind::Int:
      return EValue(std::get<int64_t>(meta.value));
    case ValueKind::Double:
      return EValue(std::get<double>(meta.value));
    case ValueKind::Bool:
      return EValue(std::get<bool>(meta.value));
    case ValueKind::String:
      return EValue(std::string_view(std::get<std::string>(meta.value)));
    default:
      return EValue();
  }
}

volatile uint8_t sink = 0;

// Every byte that a caller can.
void read(const EValue& value) {
  const auto read_bytes = [](const void* data, size_t nbytes) {
    uint8_t all = 0;
    for (size_t i = 0; i < nbytes; ++i) all ^= static_cast<const uint8_t*>(data)[i];
    sink = sink ^ all;
  };
  const auto read_items = [](Span<EValue* const> items) {
    for (const EValue* const item : items) {
      if (item) read(*item);
    }
  };
  if (value.is_tensor()) read_bytes(value.tensor().data(), value.tensor().nbytes());
  if (value.is_string()) read_bytes(value.to_string().data(), value.to_string().size());
  if (value.is_int_list()) read_items(value.to_int_list().items);
  if (value.is_tensor_list()) read_items(value.to_tensor_list().items);
  if (value.is_optional_tensor_list()) read_items(value.to_optional_tensor_list().items);
}

Reached run_method(const Program& program, const MethodMeta& meta, Random& random) {
  // Sizes that are honest but huge are not what is looked for.
  constexpr size_t kLarge = 1 << 20;
  const auto is_large = [](const ValueMeta& value) { return value.nbytes > kLarge; };
  LoadMethodOptions options;
  options.limits.emplace().instructions = 1000;
  options.limits->planned_bytes = kLarge;
  auto method = program.load_method(meta.name, options);
  if (!method.ok()) return Reached::Loaded;
  if (std::any_of(meta.inputs.begin(), meta.inputs.end(), is_large) ||
      std::any_of(meta.outputs.begin(), meta.outputs.end(), is_large)) {
    return Reached::MethodLoaded;
  }
  Buffers outputs;
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    const size_t nbytes = meta.outputs[i].nbytes;
    (void)(*method)->set_output_data(i, outputs.emplace_back(allocate(nbytes)).get(), nbytes).ok();
  }
  Reached reached = Reached::MethodLoaded;
  for (int round = 0; round < 2; ++round) {
    Buffers inputs;  // gone in the next round
    for (size_t i = 0; i < meta.inputs.size(); ++i) {
      (void)(*method)->set_input(i, value_for(meta.inputs[i], random, &inputs)).ok();
    }
    if ((*method)->execute().ok()) {
      reached = Reached::Ran;
      for (size_t i = 0; i < meta.outputs.size(); ++i) read((*method)->get_output(i));
    }
  }
  (void)(*method)->reset_state().ok();
  return reached;
}

}  // namespace

Buffer allocate(size_t nbytes) {
  const std::align_val_t alignment{16};
  return {static_cast<uint8_t*>(::operator new(nbytes, alignment)),
          [=](uint8_t* data) { ::operator delete(data, alignment); }};
}

Reached run_program(const uint8_t* data, size_t size, LoadOptions options, Random& random) {
  static Counts counts;
  const Buffer file = allocate(size);
  std::copy_n(data, size, file.get());
  Reached reached = Reached::Nothing;
  if (const auto program = Program::load({file.get(), size}, file, options); program.ok()) {
    reached = Reached::Loaded;
    (void)describe(**program).ok();
    for (const std::string& name : (*program)->method_names()) {
      const auto meta = (*program)->method_meta(name);
      if (meta.ok()) reached = std::max(reached, run_method(**program, *meta, random));
    }
  } else if (program.error().message().empty()) {
    std::fprintf(stderr, "an error without a message\n");
    std::abort();
  }
  if (scale_backend_log().alive != 0 || std::memcmp(file.get(), data, size) != 0) {
    std::fprintf(stderr, "a delegate was not destroyed, or the file was written\n");
    std::abort();
  }
  ++counts.of[static_cast<size_t>(reached)];
  return reached;
}

ProgramSpec everything(bool external) {
  ProgramSpec program = EverythingProgram::make().program;
  for (ValueSpec& value : *program.methods->front().values) {
    auto* const tensor = std::get_if<TensorSpec>(&value);
    if (!external && tensor && tensor->location == 1) *tensor = TensorSpec::constant({4}, 1);
  }
  return program;
}

// Copies the rows of x one by one, and looks at them in other ways.
ProgramSpec kernels() {
  ProgramSpec program;
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({4, 3}).bounded());
  const int n = method.add(int64_t{2});
  const int four =
      method.add(TensorSpec::constant({4}, program.add_constant(floats({1, 2, 3, 4}))));
  const int row = method.add(TensorSpec::planned({3}, 0).bounded());
  const int rows = method.add(TensorSpec::planned({4, 3}, 64).bounded());
  const int flat = method.add(TensorSpec::planned({12}, 64).bounded());
  const int state = method.add(TensorSpec::mutable_buffer({4}, 128, "state"));
  const int moved = method.add(TensorSpec::input({4}));
  const int out = method.add(TensorSpec::input({12}).bounded());
  const int view = method.add(TensorSpec::input({2, 2}));
  const int none = method.add(NoneSpec{});
  const int zero = method.add(int64_t{0}), one = method.add(int64_t{1});
  const int count = method.add(int64_t{0}), i = method.add(int64_t{0});
  const int done = method.add(false);
  const int number = method.add(0.0);
  method.inputs = {x, n};
  method.outputs = {out,    state, moved, view, row, method.add(TensorListSpec{{{flat, x}}}),
                    number, count};

  method.kernel("aten::sym_size.int", {x, zero, count});
  method.kernel("executorch_prim::sub.Scalar", {zero, zero, i});
  const int loop = method.kernel("aten::select_copy.int_out", {x, zero, i, row, row});
  method.kernel("executorch_prim::et_copy_index.tensor", {rows, row, i, rows});
  method.kernel("executorch_prim::add.Scalar", {i, one, i});
  method.kernel("executorch_prim::ge.Scalar", {i, count, done});
  method.instruction(JumpFalseSpec{done, loop});
  method.kernel("executorch_prim::et_view.default",
                {rows, method.add(std::vector<int64_t>{-1}), flat});
  method.kernel("aten::clone.out", {flat, none, out, out});
  method.kernel("aten::copy_", {state, four, done, state});
  method.kernel("executorch_prim::et_view.default",
                {state, method.add(std::vector<int64_t>{2, 2}), view});
  method.instruction(MoveSpec{four, moved});
  method.kernel("aten::sym_numel", {out, count});
  method.kernel("executorch_prim::mul.Scalar", {count, n, number});
  return program;
}

void overwrite_words(Random& random, Bytes* bytes) {
  const uint32_t edges[] = {0, 1, 2, 3, 4, 16, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe};
  const size_t words = bytes->size() / 4;
  if (words == 0) return;
  for (size_t i = 1 + below(random, 2); i-- > 0;) {
    uint32_t value = edges[below(random, std::size(edges))];
    if (random() % 3 == 0) std::memcpy(&value, bytes->data() + 4 * below(random, words), 4);
    if (random() % 3 == 0) value = static_cast<uint32_t>(below(random, 64));
    std::memcpy(bytes->data() + 4 * below(random, words), &value, 4);
  }
}

}  // namespace pteron::testing
