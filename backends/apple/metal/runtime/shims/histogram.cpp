#include "pteron/backends/aoti/ops/histogram/histogram.h"

#include "pteron/backends/aoti/ops/on_host/on_host.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

#define PTERON_HISTOGRAM_PARAMS     \
  struct HistogramParams {          \
    int64_t count, parts, weighted; \
    float low, high;                \
  };
PTERON_HISTOGRAM_PARAMS

// histc, bincount: a thread per bin. No atomics, so sums are deterministic.
const char kSource[] = PTERON_TEXT(PTERON_HISTOGRAM_PARAMS) R"MTL(
kernel void count_by_range(device OUT* out, device const T* in, constant HistogramParams& p,
                           uint part [[thread_position_in_grid]]) {
  float low = p.low, high = p.high;
  if (low == high && p.count > 0) {
    low = high = float(in[0]);
    for (long i = 0; i < p.count; ++i) {
      const float value = float(in[i]);
      if (value - value != 0) {
        out[part] = OUT(0);
        return;
      }
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  long found = 0;
  for (long i = 0; i < p.count; ++i) {
    const float value = float(in[i]);
    if (!(value >= low && value <= high)) continue;
    const float at = (value - low) * float(p.parts) / (high - low);
    if ((at < float(p.parts) ? long(at) : p.parts - 1) == long(part)) ++found;
  }
  out[part] = OUT(float(found));
}

kernel void count_numbers(device OUT* out, device const long* in, device const OUT* weights,
                          constant HistogramParams& p, uint number [[thread_position_in_grid]]) {
  OUT_SUM sum = 0;
  for (long i = 0; i < p.count; ++i) {
    if (in[i] == long(number)) sum += p.weighted ? OUT_SUM(weights[i]) : OUT_SUM(1);
  }
  out[number] = OUT(sum);
}
)MTL";

}  // namespace

Error histogram(const aoti::HistogramCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, slim::contiguous_tensor(call.self));
  const HistogramParams params{in->numel(), call.out.numel(), false, static_cast<float>(call.low),
                               static_cast<float>(call.high)};
  return launch(kSource, {{"T", in->dtype()}, {"OUT", call.out.dtype()}}, "count_by_range",
                {memory(call.out), memory(*in), bytes(params)},
                {static_cast<uint64_t>(params.parts), 1, 1});
}

// Done on the host, which synchronizes.
Error range(const aoti::RangeCall& call) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  return aoti::on_host::range(call);
}

Error count(const aoti::CountCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, converted(call.self, DType::Long));
  TensorPtr weights;
  if (call.weights) {
    PTERON_ASSIGN_OR_RETURN(weights, converted(*call.weights, call.out.dtype()));
  }
  const HistogramParams params{in->numel(), call.out.numel(), weights != nullptr, 0, 0};
  return launch(
      kSource, {{"T", in->dtype()}, {"OUT", call.out.dtype()}}, "count_numbers",
      {memory(call.out), memory(*in), memory(weights ? *weights : call.out), bytes(params)},
      {static_cast<uint64_t>(params.parts), 1, 1});
}

}  // namespace pteron::metal
