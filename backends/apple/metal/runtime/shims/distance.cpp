#include "pteron/backends/aoti/ops/distance/distance.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

#define PTERON_DISTANCE_PARAMS                \
  struct DistanceParams {                     \
    int64_t rows, columns, length, each_once; \
    float p;                                  \
  };
PTERON_DISTANCE_PARAMS

// cdist: a thread per pair of rows.
const char kSource[] = PTERON_TEXT(PTERON_DISTANCE_PARAMS) R"MTL(
kernel void distances(device T* out, device const T* x1, device const T* x2,
                      constant DistanceParams& p, uint2 position [[thread_position_in_grid]]) {
  const long j = position.x, line = position.y;
  if (p.each_once && j <= line) return;
  device const T* const a = x1 + line * p.length;
  device const T* const b = x2 + (line / p.rows * p.columns + j) * p.length;
  float sum = 0;
  for (long i = 0; i < p.length; ++i) {
    const float difference = metal::fabs(float(a[i]) - float(b[i]));
    if (p.p == 0) {
      sum += a[i] != b[i] ? 1 : 0;
    } else if (p.p == INFINITY) {
      sum = difference > sum || difference != difference ? difference : sum;
    } else {
      sum += p.p == 1 ? difference
             : p.p == 2 ? difference * difference
                        : metal::precise::pow(difference, p.p);
    }
  }
  if (p.p == 2) {
    sum = metal::precise::sqrt(sum);
  } else if (p.p != 0 && p.p != 1 && p.p != INFINITY) {
    sum = metal::precise::pow(sum, 1 / p.p);
  }
  out[line * p.columns + j - (p.each_once ? (line + 1) * (line + 2) / 2 : 0)] = T(sum);
}
)MTL";

}  // namespace

Error distance(const aoti::DistanceCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x1, slim::contiguous_tensor(call.x1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x2, slim::contiguous_tensor(call.x2));
  const size_t rank = x1->dim();
  const DistanceParams params{x1->size(rank - 2), x2->size(rank - 2), x1->size(rank - 1),
                              call.each_once, static_cast<float>(call.p)};
  const int64_t lines = call.each_once ? params.rows : call.out.numel() / params.columns;
  return launch(kSource, {{"T", call.out.dtype()}}, "distances",
                {memory(call.out), memory(*x1), memory(*x2), bytes(params)},
                {static_cast<uint64_t>(params.columns), static_cast<uint64_t>(lines), 1});
}

}  // namespace pteron::metal
