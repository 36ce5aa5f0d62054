#include "pteron/backends/aoti/ops/unique/runs.h"

#include <algorithm>
#include <numeric>

#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

template <typename T>
void order(const SlimTensor& rows, int64_t* numbers) {
  const int64_t width = rows.size(1);
  const T* const data = rows.data_as<const T>();
  std::iota(numbers, numbers + rows.size(0), int64_t{0});
  std::stable_sort(numbers, numbers + rows.size(0), [&](int64_t a, int64_t b) {
    const T *const x = data + a * width, *const y = data + b * width;
    return std::lexicographical_compare(x, x + width, y, y + width, less<T>);
  });
}

template <typename T>
void mark(const SlimTensor& rows, const int64_t* order, bool* starts) {
  using Wide = slim::accumulate_t<T>;
  const int64_t width = rows.size(1);
  const T* const data = rows.data_as<const T>();
  const auto equal = [](T a, T b) { return static_cast<Wide>(a) == static_cast<Wide>(b); };
  const T* before = nullptr;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const T* const row = data + (order ? order[i] : i) * width;
    starts[i] = !before || !std::equal(row, row + width, before, equal);
    before = row;
  }
}

template <typename T>
void number(const aoti::RunsCall& call) {
  const int64_t* const ends = call.ends.data_as<const int64_t>();
  const int64_t* const order = call.order ? call.order->data_as<const int64_t>() : nullptr;
  T* const numbers = call.numbers->data_as<T>();
  int64_t run = 0;
  for (int64_t i = 0; i < call.count; ++i) {
    while (run < call.ends.numel() && ends[run] <= i) ++run;
    numbers[order ? order[i] : i] = static_cast<T>(run);
  }
}

// As in sort.cpp: algorithms rely on an order that bools of other bytes than 0 and 1 do not have.
DType compared(const SlimTensor& rows) {
  return rows.dtype() == DType::Bool ? DType::Byte : rows.dtype();
}

}  // namespace

Error order_rows(const SlimTensor& rows, const SlimTensor& order_of_rows) {
  int64_t* const numbers = order_of_rows.data_as<int64_t>();
  PTERON_DISPATCH_REAL(compared(rows), T, order<T>(rows, numbers); return Error::Ok);
  return aoti::no_kernel_for(rows);
}

Error mark_runs(const SlimTensor& rows, const SlimTensor* order_of_rows, const SlimTensor& starts) {
  const int64_t* const order = order_of_rows ? order_of_rows->data_as<const int64_t>() : nullptr;
  PTERON_DISPATCH_REAL(compared(rows), T, mark<T>(rows, order, starts.data_as<bool>());
                       return Error::Ok);
  return aoti::no_kernel_for(rows);
}

Error number_runs(const aoti::RunsCall& call) {
  if (call.numbers) {
    call.numbers->dtype() == DType::Long ? number<int64_t>(call) : number<int32_t>(call);
  }
  if (call.lengths) {
    const int64_t* const ends = call.ends.data_as<const int64_t>();
    int64_t begin = 0;
    for (int64_t run = 0; run < call.lengths->numel(); ++run) {
      const int64_t end = run < call.ends.numel() ? ends[run] : call.count;
      call.lengths->data_as<int64_t>()[run] = end - begin;
      begin = end;
    }
  }
  return Error::Ok;
}

}  // namespace pteron::cpu
