// The toy models' bytes, and what of them is mapped.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace pteron::aoti {

// `name`: "toy_model", "toy_model_missing" or "toy_model_openmp", built beside the test.
inline std::vector<uint8_t> read_toy(const std::string& name) {
  std::ifstream file("backends/aoti/runtime/container/tests/lib" + name + ".so", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Mappings of models' shared objects in this process.
inline int mapped_shared_objects() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("pteron_model_") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace pteron::aoti
