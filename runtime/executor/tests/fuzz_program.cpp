// Program files: whatever is in them, loading and running ends in a result or an error.
//
// Half of what is tried are files of a writer that says wrong things: other arguments, values,
// shapes and places of tensors. The others are damaged bytes, mostly with the digests of what is
// then in the file.
#include <algorithm>
#include <cstdlib>

#include "pteron/runtime/executor/tests/fuzzed_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace pteron::testing {
namespace {

// Up to four things of the first method that a writer could have said.
ProgramSpec change(Random& random, ProgramSpec program) {
  MethodSpec& method = program.methods->front();
  const auto any_value = [&] { return static_cast<int32_t>(below(random, method.values->size())); };
  const auto change_one = [&](auto* items) {
    if (!items->empty()) (*items)[below(random, items->size())] = any_value();
  };
  const auto change_items = [&](auto& list) { change_one(&*list.items); };
  const auto change_tensor = [&](TensorSpec& tensor) {
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
        if (auto* const kernel = std::get_if<KernelSpec>(&instruction)) {
          change_one(&*kernel->args);
        } else if (auto* const call = std::get_if<DelegateCallSpec>(&instruction)) {
          change_one(&*call->args);
        } else if (auto* const move = std::get_if<MoveSpec>(&instruction)) {
          (below(random, 2) ? move->from : move->to) = any_value();
        } else if (auto* const jump = std::get_if<JumpFalseSpec>(&instruction)) {
          jump->destination = static_cast<int32_t>(below(random, chain.size() + 1));
        }
        break;
      default:
        if (auto* const tensor = std::get_if<TensorSpec>(&value)) {
          change_tensor(*tensor);
        } else if (auto* const number = std::get_if<int64_t>(&value)) {
          const int64_t edges[] = {-1, 0, 1, 3, 5, INT32_MAX, INT64_MAX, INT64_MIN};
          *number = edges[below(random, std::size(edges))];
        } else if (auto* const ints = std::get_if<IntListSpec>(&value)) {
          change_items(*ints);
        } else if (auto* const tensors = std::get_if<TensorListSpec>(&value)) {
          change_items(*tensors);
        } else if (auto* const flag = std::get_if<bool>(&value)) {
          *flag = !*flag;
        }
    }
  }
  return program;
}

}  // namespace
}  // namespace pteron::testing

using namespace pteron::testing;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  for (const ProgramSpec& spec : {everything(), kernels()}) {
    const Bytes bytes = write_program(spec);
    Random random(3);
    if (run_program(bytes.data(), bytes.size(), {}, random) != Reached::Ran) std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  Random random(seed);
  Bytes bytes(data, data + size);
  if (size < 64 || below(random, 2) == 0) {
    bytes = write_program(change(random, below(random, 2) ? everything() : kernels()));
  } else {
    if (below(random, 3) == 0) {
      bytes.resize(max_size);
      bytes.resize(LLVMFuzzerMutate(bytes.data(), size, max_size));
    } else {
      overwrite_words(random, &bytes);
    }
    if (below(random, 16) > 0) repair_digests(&bytes);
  }
  size = std::min(bytes.size(), max_size);
  std::copy_n(bytes.begin(), size, data);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Random random = random_of(data, size);
  pteron::LoadOptions options;
  options.verification = static_cast<pteron::Verification>(below(random, 4));
  (void)run_program(data, size, options, random);
  return 0;
}
