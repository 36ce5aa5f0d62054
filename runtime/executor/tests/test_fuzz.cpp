// Damaged files: whatever is done to them, loading and running ends in a result or an error.
//
// Strategies, on a file that uses every kind of value, instruction and segment:
//   - flip up to three bits anywhere
//   - overwrite one or two aligned 32-bit words by a small number, an edge of its range, or another
//   word of the file
//   - cut off the end
// Files without an integrity table, since with one nearly nothing gets past the digest
// (test_file_layout). What still loads is described, loaded and run with inputs that fit its
// metadata. Its constants lie in memory that can be written: a kernel or delegate cannot tell that
// an output it is told to write is a constant, and in a mapped file that is a fault.
//
// PTERON_FUZZ_ITERATIONS (default 3000) makes a run longer, PTERON_FUZZ_SEED (default 1) another
// one. A crash prints the seed that meets it again with PTERON_FUZZ_ITERATIONS=1.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using testing::Bytes;
using Random = std::mt19937_64;

volatile unsigned long current_seed = 0;

void say_seed(int signal_number) {
  char text[64];
  const int length =
      std::snprintf(text, sizeof(text), "\nmet again by PTERON_FUZZ_SEED=%lu\n", current_seed);
  if (::write(2, text, static_cast<size_t>(length)) < 0) ::_exit(1);
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

unsigned long from_environment(const char* name, unsigned long fallback) {
  const char* const text = std::getenv(name);
  return text ? std::strtoul(text, nullptr, 10) : fallback;
}

size_t below(Random& random, size_t bound) { return random() % bound; }

void overwrite_word(Random& random, Bytes* bytes) {
  const uint32_t edges[] = {0, 1, 2, 3, 4, 16, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe};
  const size_t words = bytes->size() / 4;
  uint32_t value = edges[below(random, std::size(edges))];
  if (random() % 3 == 0) std::memcpy(&value, bytes->data() + 4 * below(random, words), 4);
  if (random() % 3 == 0) value = static_cast<uint32_t>(below(random, 64));
  std::memcpy(bytes->data() + 4 * below(random, words), &value, 4);
}

Bytes damage(Random& random, Bytes bytes) {
  const size_t strategy = below(random, 8);
  if (strategy == 0) {
    bytes.resize(below(random, bytes.size()));
  } else if (strategy < 4) {
    for (size_t i = 1 + below(random, 2); i-- > 0;) overwrite_word(random, &bytes);
  } else {
    for (size_t i = 1 + below(random, 3); i-- > 0;) {
      bytes[below(random, bytes.size())] ^= static_cast<uint8_t>(1 << below(random, 8));
    }
  }
  return bytes;
}

// Memory for inputs and outputs, kept for one program.
class Buffers {
 public:
  void* get(size_t nbytes) {
    blocks_.emplace_back(nbytes / 16 + 1);
    return blocks_.back().data();
  }

 private:
  struct alignas(16) Block {
    uint8_t bytes[16] = {};
  };
  std::vector<std::vector<Block>> blocks_;
};

EValue value_for(const ValueMeta& meta, Random& random, Buffers* buffers) {
  switch (meta.kind) {
    case ValueKind::Tensor: {
      std::vector<int64_t> sizes = meta.sizes;
      for (int64_t& size : sizes) {
        if (meta.dynamism != ShapeDynamism::Static)
          size = static_cast<int64_t>(below(random, size + 1));
      }
      Result<Tensor> tensor =
          Tensor::make(meta.dtype, sizes, meta.dim_order, buffers->get(meta.nbytes), meta.device);
      return tensor.ok() ? EValue(*tensor) : EValue();
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

// How far a damaged file got.
enum class Reached { Nothing, Loaded, MethodLoaded, Ran };

Reached run(const Program& program, const MethodMeta& meta, Random& random) {
  // Sizes that are honest but huge are not what is looked for.
  constexpr size_t kLarge = 1 << 20;
  if (meta.planned_nbytes() > kLarge) return Reached::Loaded;
  Buffers buffers;
  LoadMethodOptions options;
  options.max_instructions = 1000;
  auto method = program.load_method(meta.name, options);
  if (!method.ok()) return Reached::Loaded;
  for (size_t i = 0; i < meta.inputs.size(); ++i) {
    if (meta.inputs[i].nbytes > kLarge) return Reached::MethodLoaded;
    (void)(*method)->set_input(i, value_for(meta.inputs[i], random, &buffers)).ok();
  }
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    if (meta.outputs[i].nbytes > kLarge) return Reached::MethodLoaded;
    (void)(*method)
        ->set_output_data(i, buffers.get(meta.outputs[i].nbytes), meta.outputs[i].nbytes)
        .ok();
  }
  const bool ran = (*method)->execute().ok();
  (void)(*method)->execute().ok();
  (void)(*method)->reset_state().ok();
  return ran ? Reached::Ran : Reached::MethodLoaded;
}

Reached load(const Bytes& bytes, const LoadOptions& options, Random& random) {
  auto program = Program::load(bytes, nullptr, options);
  if (!program.ok()) {
    EXPECT_FALSE(program.error().message().empty());
    return Reached::Nothing;
  }
  Reached reached = Reached::Loaded;
  for (const std::string& name : (*program)->method_names()) {
    const auto meta = (*program)->method_meta(name);
    if (meta.ok()) reached = std::max(reached, run(**program, *meta, random));
  }
  return reached;
}

TEST(FuzzTest, DamagedFilesEndInAnErrorOrAResult) {
  const unsigned long first = from_environment("PTERON_FUZZ_SEED", 1);
  const unsigned long iterations = from_environment("PTERON_FUZZ_ITERATIONS", 3000);
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    ::signal(signal_number, say_seed);
  testing::ProgramSpec program = testing::EverythingProgram::make().program;
  for (testing::ValueSpec& value : *program.methods->front().values) {
    auto* const tensor = std::get_if<testing::TensorSpec>(&value);
    if (tensor && tensor->location == 1) *tensor = testing::TensorSpec::constant({4}, 1);
  }
  testing::WriteOptions write_options;
  write_options.integrity_table = false;
  const Bytes whole = testing::write_program(program, write_options);
  LoadOptions options;

  size_t counts[4] = {};
  for (unsigned long seed = first; seed < first + iterations; ++seed) {
    current_seed = seed;
    Random random(seed);
    options.verification = static_cast<Verification>(below(random, 3));
    ++counts[static_cast<size_t>(load(damage(random, whole), options, random))];
    ASSERT_EQ(testing::scale_backend_log().alive, 0) << "seed " << seed;
  }
  std::printf("refused %zu, loaded %zu, with a method %zu, ran %zu\n", counts[0], counts[1],
              counts[2], counts[3]);
  if (iterations < 1000) return;
  // Otherwise the damage is too great, or too little, to test anything.
  EXPECT_GT(counts[0], iterations / 10);
  EXPECT_GT(counts[2] + counts[3], iterations / 10);
}

TEST(FuzzTest, DamagedDataFilesEndInAnErrorOrAResult) {
  const unsigned long first = from_environment("PTERON_FUZZ_SEED", 1);
  const unsigned long iterations = from_environment("PTERON_FUZZ_ITERATIONS", 3000) / 10 + 1;
  const testing::EverythingProgram everything = testing::EverythingProgram::make();
  const Bytes program = testing::write_program(everything.program);
  testing::WriteOptions write_options;
  write_options.integrity_table = false;
  const Bytes whole = testing::write_tensor_data(everything.data, write_options);
  for (unsigned long seed = first; seed < first + iterations; ++seed) {
    current_seed = seed;
    Random random(seed);
    LoadOptions options;
    options.data_paths = {testing::write_file("fuzz_damaged.ptd", damage(random, whole))};
    (void)load(program, options, random);
  }
}

}  // namespace
}  // namespace pteron
