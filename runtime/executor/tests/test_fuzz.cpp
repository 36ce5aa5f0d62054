// Damaged files: whatever is done to them, loading and running ends in a result or an error.
//
// Strategies, on a file that uses every kind of value, instruction and segment, and on one that
// calls the kernels of the runtime:
//   - flip up to three bits anywhere
//   - overwrite one or two aligned 32-bit words by a small number, an edge of its range, or another
//   word of the file
//   - cut off the end
//   - before it is written: other arguments, values, shapes and places of tensors
// and mostly the digests are those of what is then in the file. What still loads is described,
// loaded, run with inputs that fit its metadata, and all its outputs are read; then again with other
// inputs. The file is read-only, as a mapped one is, and every input and output ends where a page
// begins that nobody may touch. Inputs of the run before are such pages, too.
//
// PTERON_FUZZ_ITERATIONS (default 3000) makes a run longer, PTERON_FUZZ_SEED (default 1) another
// one. A crash prints the seed that meets it again with PTERON_FUZZ_ITERATIONS=1.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
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
  const size_t strategy = below(random, 16);
  if (strategy == 0) {
    bytes.resize(below(random, bytes.size()));
  } else if (strategy < 10) {
    for (size_t i = 1 + below(random, 2); i-- > 0;) overwrite_word(random, &bytes);
  } else {
    for (size_t i = 1 + below(random, 3); i-- > 0;) {
      bytes[below(random, bytes.size())] ^= static_cast<uint8_t>(1 << below(random, 8));
    }
  }
  return bytes;
}

// Memory of exactly so many bytes, before a page that nobody may touch.
class Guarded {
 public:
  explicit Guarded(size_t nbytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_ = (nbytes + page - 1) / page * page + page;
    pages_ = static_cast<uint8_t*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages_ == MAP_FAILED) std::abort();
    data_ = pages_ + size_ - page - nbytes;
    nbytes_ = nbytes;
    ::mprotect(pages_ + size_ - page, page, PROT_NONE);
  }
  ~Guarded() { ::munmap(pages_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  uint8_t* data() const { return data_; }
  Span<const uint8_t> bytes() const { return {data_, nbytes_}; }
  void allow(int protection) { ::mprotect(pages_, size_ - 1, protection); }

 private:
  uint8_t* pages_;
  uint8_t* data_;
  size_t size_;
  size_t nbytes_;
};

using Buffers = std::deque<Guarded>;

EValue value_for(const ValueMeta& meta, Random& random, Buffers* buffers) {
  switch (meta.kind) {
    case ValueKind::Tensor: {
      std::vector<int64_t> sizes = meta.sizes;
      for (int64_t& size : sizes) {
        if (meta.dynamism != ShapeDynamism::Static)
          size = static_cast<int64_t>(below(random, size + 1));
      }
      Tensor tensor = *Tensor::make(meta.dtype, sizes, meta.dim_order, nullptr, meta.device);
      tensor.set_data(buffers->emplace_back(tensor.nbytes()).data(), tensor.nbytes());
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

// How far a damaged file got.
enum class Reached { Nothing, Loaded, MethodLoaded, Ran };

Reached run(const Program& program, const MethodMeta& meta, Random& random) {
  // Sizes that are honest but huge are not what is looked for.
  constexpr size_t kLarge = 1 << 20;
  const auto is_large = [](const ValueMeta& value) { return value.nbytes > kLarge; };
  if (meta.planned_nbytes() > kLarge) return Reached::Loaded;
  Buffers inputs, outputs;
  LoadMethodOptions options;
  options.limits.emplace().instructions = 1000;
  auto method = program.load_method(meta.name, options);
  if (!method.ok()) return Reached::Loaded;
  if (std::any_of(meta.inputs.begin(), meta.inputs.end(), is_large) ||
      std::any_of(meta.outputs.begin(), meta.outputs.end(), is_large)) {
    return Reached::MethodLoaded;
  }
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    const size_t nbytes = meta.outputs[i].nbytes;
    (void)(*method)->set_output_data(i, outputs.emplace_back(nbytes).data(), nbytes).ok();
  }
  Reached reached = Reached::MethodLoaded;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < meta.inputs.size(); ++i) {
      (void)(*method)->set_input(i, value_for(meta.inputs[i], random, &inputs)).ok();
    }
    if ((*method)->execute().ok()) {
      reached = Reached::Ran;
      for (size_t i = 0; i < meta.outputs.size(); ++i) read((*method)->get_output(i));
    }
    for (Guarded& freed : inputs) freed.allow(PROT_NONE);
  }
  (void)(*method)->reset_state().ok();
  return reached;
}

Reached load(const Bytes& bytes, const LoadOptions& options, Random& random) {
  Guarded file(bytes.size() / 16 * 16 + 16);  // aligned, as a file has to be
  std::copy(bytes.begin(), bytes.end(), file.data());
  file.allow(PROT_READ);
  auto program = Program::load({file.data(), bytes.size()}, nullptr, options);
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

// Without external data, which is in another file.
testing::ProgramSpec everything() {
  testing::ProgramSpec program = testing::EverythingProgram::make().program;
  for (testing::ValueSpec& value : *program.methods->front().values) {
    auto* const tensor = std::get_if<testing::TensorSpec>(&value);
    if (tensor && tensor->location == 1) *tensor = testing::TensorSpec::constant({4}, 1);
  }
  return program;
}

// Copies the rows of x one by one, and looks at them in other ways.
testing::ProgramSpec kernels() {
  using testing::TensorSpec;
  testing::ProgramSpec program;
  testing::MethodSpec& method = program.add_method("forward");
  const int x = method.add(TensorSpec::input({4, 3}).bounded());
  const int n = method.add(int64_t{2});
  const int four =
      method.add(TensorSpec::constant({4}, program.add_constant(testing::floats({1, 2, 3, 4}))));
  const int row = method.add(TensorSpec::planned({3}, 0).bounded());
  const int rows = method.add(TensorSpec::planned({4, 3}, 64).bounded());
  const int flat = method.add(TensorSpec::planned({12}, 64).bounded());
  const int state = method.add(TensorSpec::mutable_buffer({4}, 128, "state"));
  const int moved = method.add(TensorSpec::input({4}));
  const int out = method.add(TensorSpec::input({12}).bounded());
  const int view = method.add(TensorSpec::input({2, 2}));
  const int none = method.add(testing::NoneSpec{});
  const int zero = method.add(int64_t{0}), one = method.add(int64_t{1});
  const int count = method.add(int64_t{0}), i = method.add(int64_t{0});
  const int done = method.add(false);
  const int number = method.add(0.0);
  method.inputs = {x, n};
  method.outputs = {out,    state, moved,
                    view,   row,   method.add(testing::TensorListSpec{{{flat, x}}}),
                    number, count};

  method.kernel("aten::sym_size.int", {x, zero, count});
  method.kernel("executorch_prim::sub.Scalar", {zero, zero, i});
  const int loop = method.kernel("aten::select_copy.int_out", {x, zero, i, row, row});
  method.kernel("executorch_prim::et_copy_index.tensor", {rows, row, i, rows});
  method.kernel("executorch_prim::add.Scalar", {i, one, i});
  method.kernel("executorch_prim::ge.Scalar", {i, count, done});
  method.instruction(testing::JumpFalseSpec{done, loop});
  method.kernel("executorch_prim::et_view.default",
                {rows, method.add(std::vector<int64_t>{-1}), flat});
  method.kernel("aten::clone.out", {flat, none, out, out});
  method.kernel("aten::copy_", {state, four, done, state});
  method.kernel("executorch_prim::et_view.default",
                {state, method.add(std::vector<int64_t>{2, 2}), view});
  method.instruction(testing::MoveSpec{four, moved});
  method.kernel("aten::sym_numel", {out, count});
  method.kernel("executorch_prim::mul.Scalar", {count, n, number});
  return program;
}

// Up to four things of the first method that a writer could have said.
testing::ProgramSpec change(Random& random, testing::ProgramSpec program) {
  testing::MethodSpec& method = program.methods->front();
  const auto any_value = [&] { return static_cast<int32_t>(below(random, method.values->size())); };
  const auto change_one = [&](auto* items) {
    if (!items->empty()) (*items)[below(random, items->size())] = any_value();
  };
  const auto change_items = [&](auto& list) { change_one(&*list.items); };
  const auto change_tensor = [&](testing::TensorSpec& tensor) {
    const int32_t sizes[] = {0, 1, 2, 3, 4, 12, 1 << 20, INT32_MAX};
    const int8_t dtypes[] = {0, 1, 4, 5, 6, 7, 11};
    switch (below(random, 6)) {
      case 0:
        if (!tensor.sizes->empty()) {
          (*tensor.sizes)[below(random, tensor.sizes->size())] =
              sizes[below(random, std::size(sizes))];
        }
        break;
      case 1:
        tensor.dynamism ^= 1;
        break;
      case 2:
        tensor.scalar_type = dtypes[below(random, std::size(dtypes))];
        break;
      case 3:
        tensor.has_allocation = !tensor.has_allocation;
        tensor.memory_id = 1;
        break;
      case 4:
        tensor.data_index = static_cast<uint32_t>(below(random, 3));
        break;
      default:
        tensor.offset = 4 * below(random, 100);
    }
  };
  for (size_t i = 1 + below(random, 4); i-- > 0;) {
    auto& chain = *(*method.chains)[below(random, method.chains->size())];
    auto& instruction = chain[below(random, chain.size())];
    auto& value = (*method.values)[below(random, method.values->size())];
    switch (below(random, 5)) {
      case 0:
        change_one(below(random, 2) ? &*method.inputs : &*method.outputs);
        break;
      case 1:
      case 2:
        if (auto* const kernel = std::get_if<testing::KernelSpec>(&instruction)) {
          change_one(&*kernel->args);
        } else if (auto* const call = std::get_if<testing::DelegateCallSpec>(&instruction)) {
          change_one(&*call->args);
        } else if (auto* const move = std::get_if<testing::MoveSpec>(&instruction)) {
          (below(random, 2) ? move->from : move->to) = any_value();
        } else if (auto* const jump = std::get_if<testing::JumpFalseSpec>(&instruction)) {
          jump->destination = static_cast<int32_t>(below(random, chain.size() + 1));
        }
        break;
      default:
        if (auto* const tensor = std::get_if<testing::TensorSpec>(&value)) {
          change_tensor(*tensor);
        } else if (auto* const number = std::get_if<int64_t>(&value)) {
          const int64_t edges[] = {-1, 0, 1, 3, 5, INT32_MAX, INT64_MAX, INT64_MIN};
          *number = edges[below(random, std::size(edges))];
        } else if (auto* const ints = std::get_if<testing::IntListSpec>(&value)) {
          change_items(*ints);
        } else if (auto* const tensors = std::get_if<testing::TensorListSpec>(&value)) {
          change_items(*tensors);
        } else if (auto* const flag = std::get_if<bool>(&value)) {
          *flag = !*flag;
        }
    }
  }
  return program;
}

TEST(FuzzTest, DamagedFilesEndInAnErrorOrAResult) {
  const unsigned long first = from_environment("PTERON_FUZZ_SEED", 1);
  const unsigned long iterations = from_environment("PTERON_FUZZ_ITERATIONS", 3000);
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    ::signal(signal_number, say_seed);
  const testing::ProgramSpec specs[] = {everything(), kernels()};
  const Bytes wholes[] = {testing::write_program(specs[0]), testing::write_program(specs[1])};
  LoadOptions options;

  size_t counts[2][4] = {};
  for (unsigned long seed = first; seed < first + iterations; ++seed) {
    current_seed = seed;
    Random random(seed);
    const size_t which = below(random, 2);
    const bool changes = below(random, 2) == 0;
    Bytes bytes = changes ? testing::write_program(change(random, specs[which]))
                          : damage(random, wholes[which]);
    if (!changes && below(random, 16) > 0) testing::repair_digests(wholes[which], &bytes);
    options.verification = static_cast<Verification>(below(random, 3));
    ++counts[which][static_cast<size_t>(load(bytes, options, random))];
    ASSERT_EQ(testing::scale_backend_log().alive, 0) << "seed " << seed;
  }
  for (const auto& [refused, loaded, with_method, ran] : counts) {
    std::printf("refused %zu, loaded %zu, with a method %zu, ran %zu\n", refused, loaded,
                with_method, ran);
    if (iterations < 1000) continue;
    // Otherwise the damage is too great, or too little, to test anything.
    EXPECT_GT(refused, iterations / 20);
    EXPECT_GT(ran, iterations / 20);
  }
}

TEST(FuzzTest, UndamagedFilesRun) {
  Random random(3);
  EXPECT_EQ(load(testing::write_program(everything()), {}, random), Reached::Ran);
  EXPECT_EQ(load(testing::write_program(kernels()), {}, random), Reached::Ran);
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
