#include <algorithm>
#include <climits>

#include "pteron/backends/aoti/ops/histogram/histogram.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/capture.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

using Count = unsigned long long;

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
__global__ void range_kernel(Numbers x, int64_t count, Range* range) {
  Range found{LLONG_MAX, LLONG_MIN};
  for_each_item(count, [&](int64_t i) {
    long long value;
    if constexpr (kFloating) {
      const double number = x.load<double>(i);
      // A range with a NaN is as one with both infinities.
      if (number != number) {
        found.low = ordered(-INFINITY);
        found.high = ordered(INFINITY);
        return;
      }
      value = ordered(number);
    } else {
      value = x.load<int64_t>(i);
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
Error find_range(const SlimTensor& x, Range* range, cudaStream_t stream) {
  start_range_kernel<<<1, 1, 0, stream>>>(range);
  // Few blocks, since each ends with atomics.
  const unsigned blocks = std::min(item_blocks(x.numel()), 1024u);
  range_kernel<kFloating><<<blocks, kItemThreads, 0, stream>>>(numbers_of(x), x.numel(), range);
  return launched("finding the range of numbers");
}

// `range` may be null: first and last hold.
template <typename T>
__global__ void histogram_kernel(Numbers x, int64_t count, T first, T last, const Range* range,
                                 Count* counts, int64_t bins) {
  if (range) {
    first = static_cast<T>(from_ordered(range->low));
    last = static_cast<T>(from_ordered(range->high));
    if (!isfinite(first) || !isfinite(last)) return;
  }
  if (first == last) {
    first -= 1;
    last += 1;
  }
  for_each_item(count, [&](int64_t i) {
    const T value = x.load<T>(i);
    if (!(value >= first && value <= last)) return;
    const T bin = (value - first) * static_cast<T>(bins) / (last - first);
    atomicAdd(&counts[bin < static_cast<T>(bins) ? static_cast<int64_t>(bin) : bins - 1], Count{1});
  });
}

__global__ void store_kernel(const Count* counts, int64_t bins, Numbers out) {
  for_each_item(bins, [&](int64_t i) { out.store<double>(i, static_cast<double>(counts[i])); });
}

__global__ void count_kernel(Numbers x, int64_t count, Count* out) {
  for_each_item(count, [&](int64_t i) { atomicAdd(&out[x.load<int64_t>(i)], Count{1}); });
}

// The order of the sums varies.
template <typename T>
__global__ void weight_kernel(Numbers x, int64_t count, Numbers weights, T* out) {
  for_each_item(count, [&](int64_t i) { atomicAdd(&out[x.load<int64_t>(i)], weights.load<T>(i)); });
}

Error check(const SlimTensor& tensor) {
  PTERON_CHECK_OR_RETURN(!is_float8(type_of(tensor)), Error::InvalidType,
                         "counting: found %s, expected numbers of other types",
                         slim::name_of(tensor.dtype()));
  return Error::Ok;
}

}  // namespace

Error histogram(const aoti::HistogramCall& call) {
  PTERON_RETURN_IF_ERROR(check(call.self));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  const int64_t bins = call.out.numel();
  const size_t nbytes = static_cast<size_t>(bins) * sizeof(Count);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes + sizeof(Range), scope.device()));
  auto* const counts = static_cast<Count*>(scratch->data);
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counts, 0, nbytes, scope.stream()),
                              "clearing counts");
  Range* range = nullptr;
  if (x->numel() > 0 && call.low == call.high) {
    range = reinterpret_cast<Range*>(counts + bins);
    PTERON_RETURN_IF_ERROR(find_range<true>(*x, range, scope.stream()));
  }
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return launch_items(x->numel(), scope.stream(), "counting by range", histogram_kernel<T>,
                        numbers_of(*x), x->numel(), static_cast<T>(call.low),
                        static_cast<T>(call.high), range, counts, bins);
  };
  PTERON_RETURN_IF_ERROR(x->dtype() == DType::Double ? run(double{}) : run(float{}));
  return launch_items(bins, scope.stream(), "storing counts", store_kernel, counts, bins,
                      numbers_of(call.out));
}

Error range(const aoti::RangeCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  PTERON_RETURN_IF_ERROR(
      refuse_during_capture("bincount", "the size of the result depends on data", scope.stream()));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(sizeof(Range), scope.device()));
  PTERON_RETURN_IF_ERROR(find_range<false>(*x, static_cast<Range*>(scratch->data), scope.stream()));
  Range found;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(&found, scratch->data, sizeof found, cudaMemcpyDeviceToHost, scope.stream()),
      "reading the range of numbers");
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(scope.stream()),
                              "reading the range of numbers");
  call.low = found.low;
  call.high = found.high;
  return Error::Ok;
}

Error count(const aoti::CountCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(call.out));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  if (!call.weights) {
    return launch_items(x->numel(), scope.stream(), "counting integers", count_kernel,
                        numbers_of(*x), x->numel(), call.out.data_as<Count>());
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr weights, slim::contiguous_tensor(*call.weights));
  PTERON_RETURN_IF_ERROR(check(*weights));
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return launch_items(x->numel(), scope.stream(), "adding weights", weight_kernel<T>,
                        numbers_of(*x), x->numel(), numbers_of(*weights), call.out.data_as<T>());
  };
  return call.out.dtype() == DType::Float ? run(float{}) : run(double{});
}

}  // namespace pteron::cuda
