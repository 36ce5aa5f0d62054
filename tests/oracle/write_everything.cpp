// Writes a program that uses every kind of value, instruction and segment, and its data file:
//   write_everything everything.pte everything.ptd
#include <cstdio>
#include <vector>

#include "pteron/runtime/executor/tests/everything_program.h"

namespace {

bool write(const char* path, const std::vector<uint8_t>& bytes) {
  std::FILE* const file = std::fopen(path, "wb");
  if (!file) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PROGRAM.pte DATA.ptd\n", argv[0]);
    return 2;
  }
  const auto everything = pteron::testing::EverythingProgram::make();
  if (!write(argv[1], pteron::testing::write_program(everything.program)) ||
      !write(argv[2], pteron::testing::write_tensor_data(everything.data))) {
    std::perror(argv[0]);
    return 1;
  }
  return 0;
}
