// The C functions of operators in shims.inc, and the table of the kernels that they call.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/apple/metal/runtime/shims/kernels.h"

namespace pteron::mps {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = [] {
    aoti::Kernels table;
    table.attention = metal::attention;
    table.convolution = metal::convolution;
    table.fill = metal::fill;
    table.index = metal::index;
    table.int8_weight = metal::int8_weight;
    table.multinomial = metal::multinomial;
    table.nonzero = metal::nonzero;
    table.pool = metal::pool;
    table.product = metal::product;
    table.random_integers = metal::random_integers;
    table.random_permutation = metal::random_permutation;
    table.scan = metal::scan;
    table.sort = metal::sort;
    return table;
  }();
  return kernels;
}

namespace {
[[maybe_unused]] const bool registered =
    (aoti::register_kernels(DeviceType::Metal, &kernels()), true);
}  // namespace

}  // namespace pteron::mps

#define AOTI_COMMON_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DEFINE_SHIM(mps, Metal, name, __VA_ARGS__)
#include "pteron/backends/apple/metal/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef AOTI_COMMON_SHIM
