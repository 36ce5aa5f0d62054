// Converts Metal kernels to C++ that runs them on the CPU.
//
//   const KernelText text = KernelText::parse(source);
//   text.cpp          // to compile after metal_stdlib.h: the source itself, then for each kernel
//                     //   extern "C" void msl_start_NAME(const void* const* buffers, const MslPlace&);
//   text.kernels[0].buffers
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pteron::metal {

struct KernelText {
  struct Kernel {
    std::string name;
    std::vector<bool> buffers;    // by index: whether the kernel has a parameter for it
    uint64_t max_threads = 1024;  // of a group
  };

  std::string cpp;
  std::vector<Kernel> kernels;
  bool in_lockstep = false;  // uses barriers or SIMD-group functions

  static KernelText parse(const std::string& source);
  // "a, b": for messages.
  std::string names() const;
};

}  // namespace pteron::metal
