#include "pteron/backends/cpu/runtime/kernels/recurrent_step.h"

namespace pteron::cpu {

// Of recurrent_step_isa.cpp, which is compiled for each.
#define PTERON_DECLARE(isa)                                      \
  namespace isa {                                                \
  const RecurrentFunctions<float>& recurrent_functions(float);   \
  const RecurrentFunctions<double>& recurrent_functions(double); \
  }
PTERON_DECLARE(v1)
PTERON_DECLARE(v3)
PTERON_DECLARE(v4)

template <typename T>
const RecurrentFunctions<T>& recurrent_functions() {
  static const RecurrentFunctions<T>& functions =
      __builtin_cpu_supports("x86-64-v4")   ? v4::recurrent_functions(T())
      : __builtin_cpu_supports("x86-64-v3") ? v3::recurrent_functions(T())
                                            : v1::recurrent_functions(T());
  return functions;
}

template const RecurrentFunctions<float>& recurrent_functions<float>();
template const RecurrentFunctions<double>& recurrent_functions<double>();

}  // namespace pteron::cpu
