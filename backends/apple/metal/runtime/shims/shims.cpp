// The C functions of operators in shims.inc, and the table of the kernels that they call.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/apple/metal/runtime/shims/kernels.h"

namespace pteron::mps {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = [] {
    aoti::Kernels table;
    table.arithmetic = metal::arithmetic;
    table.attention = metal::attention;
    table.convolution = metal::convolution;
    table.count = metal::count;
    table.distance = metal::distance;
    table.embedding_bag = metal::embedding_bag;
    table.fft = metal::fft;
    table.fill = metal::fill;
    table.histogram = metal::histogram;
    table.index = metal::index;
    table.int8_weight = metal::int8_weight;
    table.linalg = metal::linalg;
    table.mark_runs = metal::mark_runs;
    table.masked_scatter = metal::masked_scatter;
    table.multinomial = metal::multinomial;
    table.nonzero = metal::nonzero;
    table.number_runs = metal::number_runs;
    table.order_rows = metal::order_rows;
    table.pool = metal::pool;
    table.product = metal::product;
    table.random_integers = metal::random_integers;
    table.random_permutation = metal::random_permutation;
    table.range = metal::range;
    table.scan = metal::scan;
    table.search = metal::search;
    table.select = metal::select;
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
