#include <cmath>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/distance.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 128;

// One thread for each pair of rows.
template <typename T>
__global__ void distance_kernel(__grid_constant__ const Distances d, const T* x1, const T* x2,
                                T* out) {
  const T p = static_cast<T>(d.p);
  const int64_t count = d.batch * d.rows * d.cols,
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < count;
       k += step) {
    const int64_t j = k % d.cols, line = k / d.cols;
    if (d.each_once && j <= line) continue;
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
  }
}

}  // namespace

Error distances(const Distances& d, ScalarType dtype, const void* x1, const void* x2, void* out,
                cudaStream_t stream) {
  const int64_t count = d.batch * d.rows * d.cols, needed = (count + kThreads - 1) / kThreads;
  if (count == 0) return Error::Ok;
  const auto grid = static_cast<unsigned>(needed < 65536 ? needed : 65536);
  if (dtype == ScalarType::Float) {
    distance_kernel<<<grid, kThreads, 0, stream>>>(
        d, static_cast<const float*>(x1), static_cast<const float*>(x2), static_cast<float*>(out));
  } else {
    distance_kernel<<<grid, kThreads, 0, stream>>>(d, static_cast<const double*>(x1),
                                                   static_cast<const double*>(x2),
                                                   static_cast<double*>(out));
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "distances");
  return Error::Ok;
}

}  // namespace pteron::cuda
