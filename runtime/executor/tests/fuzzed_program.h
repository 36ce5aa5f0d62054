// Runs whatever is in a file, for fuzz targets: loading and running end in a result or an error.
#pragma once

#include <memory>
#include <random>
#include <string_view>

#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/program_spec.h"

namespace pteron::testing {

using Random = std::mt19937_64;

inline size_t below(Random& random, size_t bound) { return random() % bound; }

// Equal for equal input, so that a finding is met again.
inline Random random_of(const uint8_t* data, size_t size) {
  return Random(std::hash<std::string_view>()({reinterpret_cast<const char*>(data), size}));
}

// Memory of exactly so many bytes, aligned to 16, whose ends AddressSanitizer guards.
using Buffer = std::shared_ptr<uint8_t>;
Buffer allocate(size_t nbytes);

// How far a file got.
enum class Reached { Nothing, Loaded, MethodLoaded, Ran };

// Describes and loads a program, loads all its methods, runs them twice with inputs that fit their
// metadata, and reads all bytes of the outputs. Aborts if the program's bytes change.
Reached run_program(const uint8_t* data, size_t size, LoadOptions options, Random& random);

// What fuzz targets begin with: a program of every kind of value, instruction and segment, with or
// without external data, and one that calls the runtime's kernels.
ProgramSpec everything(bool external = false);
ProgramSpec kernels();

// Overwrites one or two aligned 32-bit words by a small number, an edge of its range, or another
// word of the file.
void overwrite_words(Random& random, Bytes* bytes);

}  // namespace pteron::testing
