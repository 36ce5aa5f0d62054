// Writes program and data files for tests, right ones and wrong ones: every field can be given any
// value or be left out. Independent of the Python writer; the layout is that of
// runtime/schema/README.md.
//
//   ProgramSpec program;
//   MethodSpec& method = program.add_method("forward");
//   const int x = method.add(TensorSpec::input({2, 3}));
//   const int y = method.add(TensorSpec::planned({2, 3}, 0));
//   method.kernel("test::negate.out", {x, y, y});
//   method.inputs = {x};
//   method.outputs = {y};
//   std::vector<uint8_t> bytes = write_program(program);
#pragma once

#include <string>

#include "pteron/runtime/executor/tests/program_spec.h"

namespace pteron::testing {

struct WriteOptions {
  bool integrity_table = true;
  bool header = true;  // without one there can be no segments
};

Bytes write_program(const ProgramSpec& program, const WriteOptions& options = {});
Bytes write_tensor_data(const TensorDataSpec& data, const WriteOptions& options = {});

// Gives a program or data file, damaged or not, the digests of what is in it, as far as its tables
// can be read.
void repair_digests(Bytes* file);

// Writes `bytes` to a new file in the test's folder and gives its path.
std::string write_file(const std::string& name, const Bytes& bytes);

}  // namespace pteron::testing
