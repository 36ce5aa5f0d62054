// A model whose code is compiled with AddressSanitizer: whatever its inputs are, runs end in a result or
// an error. test_generated_code.py compiles models and starts it:
//
//   MODEL=model.pte fuzz_model -runs=2000
//
// Sizes are mostly those that the model takes. Memory of inputs, outputs and intermediates is as long as
// they are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"

namespace {

using namespace pteron;

using Buffer = std::unique_ptr<uint8_t, void (*)(void*)>;

Buffer allocate(size_t nbytes) {
  void* data = nullptr;
  if (posix_memalign(&data, 16, nbytes) != 0) std::abort();
  return {static_cast<uint8_t*>(data), std::free};
}

// What the fuzzer decides, byte by byte; again from the start after the end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return size_ == 0 ? 0 : data_[at_++ % size_]; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

std::unique_ptr<Method> load() {
  const char* const path = std::getenv("MODEL");
  ::setenv("PTERON_GUARD_PAGES", "end", /*overwrite=*/1);
  if (path) {
    if (const auto program = Program::load(path); program.ok()) {
      auto method = (*program)->load_method("forward");
      if (method.ok()) return std::move(*method);
      std::fprintf(stderr, "%s\n", method.error().message().c_str());
    } else {
      std::fprintf(stderr, "%s\n", program.error().message().c_str());
    }
  }
  std::fprintf(stderr, "MODEL=%s is no program that can be run\n", path ? path : "");
  std::exit(1);
}

Method& method() {
  static const std::unique_ptr<Method> loaded = load();
  return *loaded;
}

// Small integers of both signs and ends of ranges; numbers, infinities and NaN.
void fill(Choices& choices, ScalarType dtype, uint8_t* data, size_t nbytes) {
  const size_t item = element_size(dtype);
  for (size_t at = 0; at + item <= nbytes; at += item) {
    const uint8_t choice = choices.byte();
    if (is_floating(dtype) || is_complex(dtype)) {
      for (size_t i = 0; i < item; ++i) data[at + i] = choices.byte();
      if (choice % 4 && dtype == ScalarType::Float) {
        const float value = static_cast<float>(choice) / 16 - 8;
        std::memcpy(data + at, &value, sizeof(value));
      }
      continue;
    }
    const int64_t edges[] = {-1, -2, INT64_MAX, INT64_MIN, 1 << 20, INT32_MAX, INT32_MIN, 127};
    const int64_t value = choice < 16 ? edges[choice % 8] : choice % 6;
    std::memcpy(data + at, &value, item);
    if (dtype == ScalarType::Bool) data[at] &= 1;
  }
}

volatile uint8_t sink = 0;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  (void)method();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static size_t results = 0, errors = 0;
  Choices choices(data, size);
  std::vector<Buffer> memory;
  const MethodMeta& meta = method().meta();
  const bool is_whole = choices.byte() % 2 == 0;  // sizes are the largest, which every model takes
  for (size_t i = 0; i < meta.inputs.size(); ++i) {
    const ValueMeta& input = meta.inputs[i];
    if (input.kind != ValueKind::Tensor) continue;
    std::vector<int64_t> sizes = input.sizes;
    for (int64_t& length : sizes) {
      const uint8_t choice = choices.byte();
      // Equal bytes give equal sizes, which models with two dynamic inputs often need.
      if (input.dynamism != ShapeDynamism::Static && !is_whole)
        length = 1 + choice % std::max<int64_t>(length, 1);
    }
    const auto made = Tensor::make(input.dtype, sizes, input.dim_order, nullptr, input.device);
    if (!made.ok()) continue;
    Tensor tensor = *made;
    memory.push_back(allocate(tensor.nbytes()));
    fill(choices, input.dtype, memory.back().get(), tensor.nbytes());
    tensor.set_data(memory.back().get(), tensor.nbytes());
    (void)method().set_input(i, EValue(tensor)).ok();
  }
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    if (meta.outputs[i].kind != ValueKind::Tensor) continue;
    memory.push_back(allocate(meta.outputs[i].nbytes));
    (void)method().set_output_data(i, memory.back().get(), meta.outputs[i].nbytes).ok();
  }
  if (const Error run = method().execute(); !run.ok()) {
    if (++errors == 1) std::fprintf(stderr, "the first error: %s\n", run.message().c_str());
    return 0;
  }
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    const EValue& output = method().get_output(i);
    if (!output.is_tensor()) continue;
    const auto* const bytes = static_cast<const uint8_t*>(output.tensor().data());
    for (size_t at = 0; at < output.tensor().nbytes(); ++at) sink = sink ^ bytes[at];
  }
  if (++results == 1) std::fprintf(stderr, "a run gave results\n");
  return 0;
}
