#include "pteron/backends/aoti/ops/sort/sort.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// The first `count` of a row, in order. Ties are broken by torch's algorithm: mixture-of-experts
// models select by scores that may be equal.
template <typename T>
void select_first(Ranked<T>* row, int64_t length, int64_t count, bool descending) {
  const auto before = [descending](const Ranked<T>& a, const Ranked<T>& b) {
    return descending ? less(b.value, a.value) : less(a.value, b.value);
  };
  if (count == 0) return;
  if (count * 64 <= length) return std::partial_sort(row, row + count, row + length, before);
  std::nth_element(row, row + count - 1, row + length, before);
  std::sort(row, row + count - 1, before);
}

template <typename T>
void sort_rows(const aoti::SortCall& call) {
  const Rows in(call.self, call.dim), values(call.values, call.dim),
      indices(call.indices, call.dim);
  const T* const source = call.self.data_as<const T>();
  parallel_for(in.count(), in.grain(), [&](int64_t begin, int64_t end) {
    Scratch<Ranked<T>> scratch(in.length());
    Ranked<T>* const ranked = scratch.data();
    for (int64_t l = begin; l < end; ++l) {
      const T* row = source + in.offset(l);
      for (int64_t i = 0; i < in.length(); ++i) ranked[i] = {row[i * in.stride()], i};
      if (call.stable) {
        std::sort(ranked, ranked + in.length(), RankedBefore<T>{call.descending});
      } else {
        select_first(ranked, in.length(), call.count, call.descending);
      }
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
  if (call.values.numel() == 0) return Error::Ok;  // of any number of rows
  // Other bytes than 0 and 1 have an order, too; as bools they have none that algorithms rely on.
  const DType dtype = call.self.dtype() == DType::Bool ? DType::Byte : call.self.dtype();
  PTERON_DISPATCH_REAL(dtype, T, sort_rows<T>(call); return Error::Ok);
  return aoti::no_kernel_for(call.self);
}

}  // namespace pteron::cpu
