#include "pteron/backends/cuda/runtime/shims/kernels.h"

namespace pteron::cuda {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = [] {
    aoti::Kernels k;
    k.arithmetic = arithmetic;
    k.convolution = convolution;
    k.count = count;
    k.distance = distance;
    k.embedding_bag = embedding_bag;
    k.fft = fft;
    k.fill = fill;
    k.histogram = histogram;
    k.index = index;
    k.int8_weight = int8_weight;
    k.linalg = linalg;
    k.mark_runs = mark_runs;
    k.masked_scatter = masked_scatter;
    k.nonzero = nonzero;
    k.number_runs = number_runs;
    k.order_rows = order_rows;
    k.pool = pool;
    k.multinomial = multinomial;
    k.product = product;
    k.random_integers = random_integers;
    k.random_permutation = random_permutation;
    k.range = range;
    k.scan = scan;
    k.search = search;
    k.select = select;
    k.sort = sort;
    return k;
  }();
  return kernels;
}

namespace {
[[maybe_unused]] const bool registered =
    (aoti::register_kernels(DeviceType::CUDA, &kernels()), true);
}  // namespace

}  // namespace pteron::cuda
