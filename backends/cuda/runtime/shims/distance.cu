#include <cmath>

#include "pteron/backends/aoti/ops/distance/distance.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

// Kernel arguments. x1 is (batch, rows, length), x2 (batch, cols, length), both row-major.
struct Distances {
  int64_t count;  // of pairs
  int64_t rows, cols, length;
  double p;
  bool each_once;
};

// One thread for each pair of rows.
template <typename T>
__global__ void distance_kernel(__grid_constant__ const Distances d, const T* x1, const T* x2,
                                T* out) {
  const T p = static_cast<T>(d.p);
  for_each_item(d.count, [&](int64_t k) {
    const int64_t j = k % d.cols, line = k / d.cols;
    if (d.each_once && j <= line) return;
    const T* a = x1 + line * d.length;
    const T* b = x2 + (line / d.rows * d.cols + j) * d.length;
    T sum = 0;
    for (int64_t i = 0; i < d.length; ++i) {
      const T difference = fabs(a[i] - b[i]);
      if (d.p == 0) {
        sum += difference != T(0) ? T(1) : T(0);
      } else if (d.p == 1) {
        sum += difference;
      } else if (d.p == 2) {
        sum += difference * difference;
      } else if (isinf(d.p)) {
        if (difference > sum || difference != difference) sum = difference;
      } else {
        sum += pow(difference, p);
      }
    }
    if (d.p == 2) {
      sum = sqrt(sum);
    } else if (d.p != 0 && d.p != 1 && !isinf(d.p)) {
      sum = pow(sum, static_cast<T>(1 / d.p));
    }
    // Before a row of pairs there are rows with cols - 1, cols - 2, ... of them.
    out[d.each_once ? k - (line + 1) * (line + 2) / 2 : k] = sum;
  });
}

}  // namespace

Error distance(const aoti::DistanceCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  const size_t rank = call.x1.dim();
  PTERON_ASSIGN_OR_RETURN(TensorPtr x1, rows_along(call.x1, rank - 1));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x2, rows_along(call.x2, rank - 1));
  const int64_t rows = x1->size(rank - 2), cols = x2->size(rank - 2);
  const Distances d{call.each_once ? rows * cols : call.out.numel(),
                    rows,
                    cols,
                    x1->size(rank - 1),
                    call.p,
                    call.each_once};
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return launch_items(d.count, scope.stream(), "distances", distance_kernel<T>, d,
                        x1->data_as<const T>(), x2->data_as<const T>(), call.out.data_as<T>());
  };
  return call.out.dtype() == DType::Float ? run(float{}) : run(double{});
}

}  // namespace pteron::cuda
