#include "pteron/backends/cpu/runtime/shims/kernels.h"

namespace pteron::cpu {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = [] {
    aoti::Kernels k;
    k.count = count;
    k.distance = distance;
    k.embedding_bag = embedding_bag;
    k.histogram = histogram;
    k.linalg = linalg;
    k.pool = pool;
    k.range = range;
    k.scan = scan;
    k.search = search;
    k.select = select;
    k.sort = sort;
    return k;
  }();
  return kernels;
}

}  // namespace pteron::cpu
