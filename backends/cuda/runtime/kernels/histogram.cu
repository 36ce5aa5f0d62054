#include <climits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/capture.h"
#include "pteron/backends/cuda/runtime/kernels/histogram.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;
using Count = unsigned long long;

unsigned blocks_for(int64_t count, int64_t most = 8192) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < most ? needed : most);
}

// Calls body(i) for i in [0, count), spread over the grid.
template <typename Body>
__device__ void for_each(int64_t count, const Body& body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    body(i);
  }
}

// Least and greatest, as integers of the same order.
struct Range {
  long long low, high;
};

__device__ long long ordered(double value) {
  if (value == 0.0) value = 0.0;  // -0 is 0
  const long long bits = __double_as_longlong(value);
  return bits < 0 ? bits ^ LLONG_MAX : bits;
}

__device__ double from_ordered(long long bits) {
  return __longlong_as_double(bits < 0 ? bits ^ LLONG_MAX : bits);
}

__global__ void start_range_kernel(Range* range) { *range = {LLONG_MAX, LLONG_MIN}; }

template <bool kFloating>
__global__ void range_kernel(ScalarType dtype, const void* x, int64_t count, Range* range) {
  Range found{LLONG_MAX, LLONG_MIN};
  for_each(count, [&](int64_t i) {
    long long value;
    if constexpr (kFloating) {
      const double number = load_as<double>(x, dtype, i);
      // A range with a NaN is as one with both infinities.
      if (number != number) {
        found.low = ordered(-INFINITY);
        found.high = ordered(INFINITY);
        return;
      }
      value = ordered(number);
    } else {
      value = load_as<int64_t>(x, dtype, i);
    }
    if (value < found.low) found.low = value;
    if (value > found.high) found.high = value;
  });
  for (int lane = 16; lane > 0; lane /= 2) {
    const long long low = __shfl_xor_sync(~0u, found.low, lane);
    const long long high = __shfl_xor_sync(~0u, found.high, lane);
    if (low < found.low) found.low = low;
    if (high > found.high) found.high = high;
  }
  if (threadIdx.x % 32 == 0 && found.low <= found.high) {
    atomicMin(&range->low, found.low);
    atomicMax(&range->high, found.high);
  }
}

template <bool kFloating>
Error find_range(ScalarType dtype, const void* x, int64_t count, Range* range,
                 cudaStream_t stream) {
  start_range_kernel<<<1, 1, 0, stream>>>(range);
  range_kernel<kFloating><<<blocks_for(count, 1024), kThreads, 0, stream>>>(dtype, x, count, range);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "finding the range of numbers");
  return Error::Ok;
}

// `range` may be null: first and last hold.
template <typename T>
__global__ void histogram_kernel(ScalarType dtype, const void* x, int64_t count, T first, T last,
                                 const Range* range, Count* counts, int64_t bins) {
  if (range) {
    first = static_cast<T>(from_ordered(range->low));
    last = static_cast<T>(from_ordered(range->high));
    if (!isfinite(first) || !isfinite(last)) return;
  }
  if (first == last) {
    first -= 1;
    last += 1;
  }
  for_each(count, [&](int64_t i) {
    const T value = load_as<T>(x, dtype, i);
    if (!(value >= first && value <= last)) return;
    const T bin = (value - first) * static_cast<T>(bins) / (last - first);
    atomicAdd(&counts[bin < static_cast<T>(bins) ? static_cast<int64_t>(bin) : bins - 1], Count{1});
  });
}

__global__ void store_kernel(const Count* counts, int64_t bins, ScalarType dtype, void* out) {
  for_each(bins,
           [&](int64_t i) { store_as<double>(out, dtype, i, static_cast<double>(counts[i])); });
}

__global__ void count_kernel(ScalarType dtype, const void* x, int64_t count, Count* out) {
  for_each(count, [&](int64_t i) { atomicAdd(&out[load_as<int64_t>(x, dtype, i)], Count{1}); });
}

template <typename T>
__global__ void weight_kernel(ScalarType dtype, const void* x, int64_t count,
                              ScalarType weights_dtype, const void* weights, T* out) {
  for_each(count, [&](int64_t i) {
    atomicAdd(&out[load_as<int64_t>(x, dtype, i)], load_as<T>(weights, weights_dtype, i));
  });
}

Error check(ScalarType dtype) {
  PTERON_CHECK_OR_RETURN(dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn,
                         Error::InvalidType, "counting: found %s, expected numbers of other types",
                         name_of(dtype));
  return Error::Ok;
}

}  // namespace

Error count_by_range(ScalarType dtype, const void* x, int64_t count, double low, double high,
                     void* out, int64_t bins, int device, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(dtype));
  const size_t nbytes = static_cast<size_t>(bins) * sizeof(Count);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes + sizeof(Range), device));
  auto* const counts = static_cast<Count*>(scratch->data);
  Range* range = nullptr;
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counts, 0, nbytes, stream), "clearing counts");
  if (count > 0) {
    if (low == high) {
      range = reinterpret_cast<Range*>(counts + bins);
      PTERON_RETURN_IF_ERROR(find_range<true>(dtype, x, count, range, stream));
    }
    const unsigned blocks = blocks_for(count);
    if (dtype == ScalarType::Double) {
      histogram_kernel<double>
          <<<blocks, kThreads, 0, stream>>>(dtype, x, count, low, high, range, counts, bins);
    } else {
      histogram_kernel<float><<<blocks, kThreads, 0, stream>>>(
          dtype, x, count, static_cast<float>(low), static_cast<float>(high), range, counts, bins);
    }
    PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "counting by range");
  }
  store_kernel<<<blocks_for(bins), kThreads, 0, stream>>>(counts, bins, dtype, out);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "storing counts");
  return Error::Ok;
}

Error range_of_integers(ScalarType dtype, const void* x, int64_t count, IntegerRange* range,
                        int device, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(
      refuse_during_capture("bincount", "the size of the result depends on data", stream));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch, allocate_scratch(sizeof(Range), device));
  PTERON_RETURN_IF_ERROR(
      find_range<false>(dtype, x, count, static_cast<Range*>(scratch->data), stream));
  Range found;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(&found, scratch->data, sizeof found, cudaMemcpyDeviceToHost, stream),
      "reading the range of numbers");
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "reading the range of numbers");
  *range = {found.low, found.high};
  return Error::Ok;
}

Error count_integers(ScalarType dtype, const void* x, int64_t count, int64_t* out,
                     cudaStream_t stream) {
  if (count == 0) return Error::Ok;
  count_kernel<<<blocks_for(count), kThreads, 0, stream>>>(dtype, x, count,
                                                           reinterpret_cast<Count*>(out));
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "counting integers");
  return Error::Ok;
}

Error add_weights(ScalarType dtype, const void* x, int64_t count, ScalarType weights_dtype,
                  const void* weights, ScalarType out_dtype, void* out, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(weights_dtype));
  if (count == 0) return Error::Ok;
  const unsigned blocks = blocks_for(count);
  if (out_dtype == ScalarType::Float) {
    weight_kernel<<<blocks, kThreads, 0, stream>>>(dtype, x, count, weights_dtype, weights,
                                                   static_cast<float*>(out));
  } else {
    weight_kernel<<<blocks, kThreads, 0, stream>>>(dtype, x, count, weights_dtype, weights,
                                                   static_cast<double*>(out));
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "adding weights");
  return Error::Ok;
}

}  // namespace pteron::cuda
