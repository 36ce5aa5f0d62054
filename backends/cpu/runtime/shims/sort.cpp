#include "pteron/backends/aoti/ops/sort.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

template <typename T>
void sort_rows(const aoti::SortCall& call) {
  const Rows in(call.self, call.dim), values(call.values, call.dim),
      indices(call.indices, call.dim);
  const T* const source = call.self.data_as<const T>();
  const RankedBefore<T> before{call.descending};
  parallel_for(in.count(), in.grain(), [&](int64_t begin, int64_t end) {
    Scratch<Ranked<T>> scratch(in.length());
    Ranked<T>* const ranked = scratch.data();
    for (int64_t l = begin; l < end; ++l) {
      const T* row = source + in.offset(l);
      for (int64_t i = 0; i < in.length(); ++i) ranked[i] = {row[i * in.stride()], i};
      if (call.count < in.length()) {
        std::nth_element(ranked, ranked + call.count, ranked + in.length(), before);
      }
      std::sort(ranked, ranked + call.count, before);
      T* value = call.values.data_as<T>() + values.offset(l);
      int64_t* index = call.indices.data_as<int64_t>() + indices.offset(l);
      for (int64_t i = 0; i < call.count; ++i) {
        value[i * values.stride()] = ranked[i].value;
        index[i * indices.stride()] = ranked[i].index;
      }
    }
  });
}

}  // namespace

Error sort(const aoti::SortCall& call) {
  PTERON_DISPATCH_REAL(call.self.dtype(), T, sort_rows<T>(call); return Error::Ok);
  return aoti::no_kernel_for(call.self);
}

}  // namespace pteron::cpu
