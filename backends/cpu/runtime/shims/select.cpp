#include "pteron/backends/aoti/ops/select/select.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::SelectCall;
using Kind = SelectCall::Kind;

template <typename T>
const Ranked<T>& most_frequent(Ranked<T>* row, int64_t length) {
  std::sort(row, row + length, RankedBefore<T>{false});
  int64_t best = 0, frequency = 0, run = 0;
  for (int64_t i = 0; i < length; ++i) {
    run = i > 0 && !less(row[i - 1].value, row[i].value) && !is_nan(row[i].value) ? run + 1 : 1;
    // The last position of the longest run.
    if (run > frequency) {
      frequency = run;
      best = i;
    }
  }
  return row[best];
}

template <typename T>
const Ranked<T>& of_rank(Kind kind, int64_t k, Ranked<T>* row, int64_t length) {
  const int64_t nans =
      std::count_if(row, row + length, [](const Ranked<T>& r) { return is_nan(r.value); });
  const int64_t numbers = length - nans;
  int64_t rank = k - 1;
  if (kind == Kind::kMedian) rank = nans > 0 ? numbers : (length - 1) / 2;
  if (kind == Kind::kNanMedian) rank = numbers > 0 ? (numbers - 1) / 2 : 0;
  std::nth_element(row, row + rank, row + length, RankedBefore<T>{false});
  return row[rank];
}

template <typename T>
void select_of_rows(const SelectCall& call) {
  const Rows in(call.self, call.dim);
  parallel_for(in.count(), in.grain(), [&](int64_t begin, int64_t end) {
    Scratch<Ranked<T>> scratch(in.length());
    Ranked<T>* const ranked = scratch.data();
    for (int64_t l = begin; l < end; ++l) {
      const T* row = call.self.data_as<const T>() + in.offset(l);
      for (int64_t i = 0; i < in.length(); ++i) ranked[i] = {row[i * in.stride()], i};
      const Ranked<T>& found = call.kind == Kind::kMode
                                   ? most_frequent(ranked, in.length())
                                   : of_rank(call.kind, call.k, ranked, in.length());
      call.values.data_as<T>()[l] = found.value;
      call.indices.data_as<int64_t>()[l] = found.index;
    }
  });
}

}  // namespace

Error select(const SelectCall& call) {
  const DType dtype = call.self.dtype() == DType::Bool ? DType::Byte : call.self.dtype();
  PTERON_DISPATCH_REAL(dtype, T, select_of_rows<T>(call); return Error::Ok);  // as in sort.cpp
  return aoti::no_kernel_for(call.self);
}

}  // namespace pteron::cpu
