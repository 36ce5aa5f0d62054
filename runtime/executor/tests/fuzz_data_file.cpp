// Data files of a program: whatever is in them, loading and running ends in a result or an error.
#include <algorithm>
#include <cstdlib>

#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/fuzzed_program.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

using namespace pteron::testing;

static Reached run_with(const uint8_t* data, size_t size) {
  static const Bytes program = write_program(everything(/*external=*/true));
  Random random = random_of(data, size);
  const Buffer file = allocate(size);
  std::copy_n(data, size, file.get());
  pteron::LoadOptions options;
  options.verification = static_cast<pteron::Verification>(below(random, 4));
  options.data_files = {{{file.get(), size}, file}};
  return run_program(program.data(), program.size(), options, random);
}

static Bytes whole() { return write_tensor_data(EverythingProgram::make().data); }

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const Bytes bytes = whole();
  if (run_with(bytes.data(), bytes.size()) != Reached::Ran) std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  Random random(seed);
  Bytes bytes = size < 64 ? whole() : Bytes(data, data + size);
  size = bytes.size();
  if (below(random, 3) == 0) {
    bytes.resize(std::max(size, max_size));
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, max_size));
  } else {
    overwrite_words(random, &bytes);
  }
  if (below(random, 16) > 0) repair_digests(&bytes);
  size = std::min(bytes.size(), max_size);
  std::copy_n(bytes.begin(), size, data);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)run_with(data, size);
  return 0;
}
