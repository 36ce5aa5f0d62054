#include "pteron/backends/aoti/ops/scan/scan.h"

#include <functional>
#include <limits>
#include <type_traits>

#include "pteron/backends/aoti/ops/scan/scan_steps.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::ScanCall;
using Kind = ScanCall::Kind;

// Accumulation type: double for float, float for narrower dtypes.
template <typename T>
using running_t = std::conditional_t<std::is_same_v<T, float>, double, slim::accumulate_t<T>>;

// Computation type: integers wrap.
template <typename T, typename Wide = running_t<T>>
using wrapping_t =
    std::conditional_t<std::is_integral_v<Wide> && !std::is_same_v<Wide, bool>, uint64_t, Wide>;

// Calls body(rows, start of a row) for the rows of the outputs.
template <typename Body>
void for_each_row(const ScanCall& call, const Body& body) {
  if (call.out.numel() == 0) return;  // of any number of rows
  const Rows rows(call.out, call.dim);
  parallel_for(rows.count(), rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(rows, rows.offset(row));
  });
}

// out[i] = step(out[i - 1], out[i]), from `start`.
template <typename T, typename Step>
void accumulate(const ScanCall& call, running_t<T> start, const Step& step) {
  for_each_row(call, [&](const Rows& rows, int64_t offset) {
    T* row = call.out.data_as<T>() + offset;
    running_t<T> running = start;
    for (int64_t i = 0; i < rows.length(); ++i) {
      T& element = row[i * rows.stride()];
      running = step(running, static_cast<running_t<T>>(element));
      element = static_cast<T>(running);
    }
  });
}

template <typename T>
void log_sums(const ScanCall& call) {
  using Wide = running_t<T>;
  accumulate<T>(call, -std::numeric_limits<Wide>::infinity(),
                [](Wide a, Wide b) { return aoti::log_of_exp_sum(a, b); });
}

template <typename T>
void extremes(const ScanCall& call) {
  using Wide = slim::accumulate_t<T>;
  for_each_row(call, [&](const Rows& rows, int64_t offset) {
    T* row = call.out.data_as<T>() + offset;
    int64_t* index = call.indices->data_as<int64_t>() + offset;
    int64_t best = 0;
    for (int64_t i = 0; i < rows.length(); ++i) {
      const Wide value = row[i * rows.stride()], held = row[best * rows.stride()];
      if (aoti::replaces_extreme(call.kind == Kind::kMaximum, held, value)) best = i;
      row[i * rows.stride()] = row[best * rows.stride()];
      index[i * rows.stride()] = best;
    }
  });
}

}  // namespace

Error scan(const ScanCall& call) {
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(call.out, call.self));
  const DType dtype = call.out.dtype();
  switch (call.kind) {
    case Kind::kSum:
      PTERON_DISPATCH_REAL(dtype, T, accumulate<T>(call, 0, std::plus<wrapping_t<T>>());
                           return Error::Ok);
      break;
    case Kind::kProduct:
      PTERON_DISPATCH_REAL(dtype, T, accumulate<T>(call, 1, std::multiplies<wrapping_t<T>>());
                           return Error::Ok);
      break;
    case Kind::kLogSumExp:
      PTERON_DISPATCH_FLOATING(dtype, T, log_sums<T>(call); return Error::Ok);
      break;
    case Kind::kMaximum:
    case Kind::kMinimum:
      PTERON_DISPATCH_REAL(dtype, T, extremes<T>(call); return Error::Ok);
      break;
  }
  return aoti::no_kernel_for(call.out);
}

}  // namespace pteron::cpu
