#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <limits>
#include <type_traits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/scatter.h"
#include "pteron/backends/cuda/runtime/kernels/wide.cuh"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks(int64_t count) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < 65536 ? needed : 65536);
}

template <typename W>
__device__ W combine(Reduction reduction, W a, W b) {
  switch (reduction) {
    case Reduction::kProd:
      return a * b;
    // A NaN on either side wins.
    case Reduction::kMax:
      return a != a || a > b ? a : b;
    case Reduction::kMin:
      return a != a || a < b ? a : b;
    default:
      return a + b;
  }
}

// What changes nothing when something is reduced with it.
template <typename W>
W neutral(Reduction reduction) {
  using Limits = std::numeric_limits<W>;
  switch (reduction) {
    case Reduction::kProd:
      return W(1);
    case Reduction::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Reduction::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return W(0);
  }
}

struct Offsets {
  int64_t out;
  int64_t src;
};

// Where element `i` of the index goes to and comes from; false if it points outside.
__device__ bool locate(const ScatterReduce& s, const int64_t* index, int64_t i, Offsets* at) {
  int64_t rest = i, at_index = 0, at_out = 0, at_src = 0;
  for (int d = s.dims; d-- > 0;) {
    const int64_t coordinate = rest % s.sizes[d];
    rest /= s.sizes[d];
    at_index += coordinate * s.index_strides[d];
    at_src += coordinate * s.src_strides[d];
    if (d != s.dim) at_out += coordinate * s.out_strides[d];
  }
  const int64_t target = index[at_index];
  if (target < 0 || target >= s.out_dim_size) return false;
  *at = {at_out + target * (s.dims > 0 ? s.out_strides[s.dim] : 0), at_src};
  return true;
}

template <typename T>
__global__ void reset_kernel(__grid_constant__ const ScatterReduce s, T* out, const int64_t* index,
                             T value, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    Offsets at;
    if (locate(s, index, i, &at)) out[at.out] = value;
  }
}

template <typename T>
__global__ void reduce_kernel(__grid_constant__ const ScatterReduce s, T* out, const int64_t* index,
                              const T* src, int32_t* counts, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    Offsets at;
    if (!locate(s, index, i, &at)) continue;
    using W = typename Wide<T>::type;
    const W value = static_cast<W>(src[at.src]);
    update(out + at.out, [&](W current) { return combine(s.reduction, current, value); });
    if (counts) atomicAdd(counts + at.out, 1);
  }
}

// Divides once, by whoever takes the count.
template <typename T>
__global__ void mean_kernel(__grid_constant__ const ScatterReduce s, T* out, const int64_t* index,
                            int32_t* counts, int64_t count) {
  using W = typename Wide<T>::type;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    Offsets at;
    if (!locate(s, index, i, &at)) continue;
    const int32_t taken = atomicExch(counts + at.out, 0);
    if (taken == 0) continue;
    const W divisor = static_cast<W>(taken + (s.include_self ? 1 : 0));
    const W sum = static_cast<W>(out[at.out]);
    W mean = sum / divisor;
    if constexpr (std::is_integral_v<W>) {
      if (sum % divisor != 0 && sum < 0) mean -= 1;  // rounded down, as torch does
    }
    out[at.out] = static_cast<T>(mean);
  }
}

template <typename T>
Error run(const ScatterReduce& s, void* out, const int64_t* index, const void* src, int32_t* counts,
          int64_t count, cudaStream_t stream) {
  auto* target = static_cast<T*>(out);
  if (!s.include_self) {
    const T value = static_cast<T>(neutral<typename Wide<T>::type>(s.reduction));
    reset_kernel<T><<<blocks(count), kThreads, 0, stream>>>(s, target, index, value, count);
  }
  reduce_kernel<T><<<blocks(count), kThreads, 0, stream>>>(
      s, target, index, static_cast<const T*>(src), counts, count);
  if (s.reduction == Reduction::kMean) {
    mean_kernel<T><<<blocks(count), kThreads, 0, stream>>>(s, target, index, counts, count);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "scattering");
  return Error::Ok;
}

}  // namespace

Error scatter_reduce(const ScatterReduce& s, void* out, const int64_t* index, const void* src,
                     int32_t* counts, cudaStream_t stream) {
  int64_t count = 1;
  for (int i = 0; i < s.dims; ++i) count *= s.sizes[i];
  if (count == 0) return Error::Ok;
  switch (s.dtype) {
    case ScalarType::Half:
      return run<__half>(s, out, index, src, counts, count, stream);
    case ScalarType::BFloat16:
      return run<__nv_bfloat16>(s, out, index, src, counts, count, stream);
    case ScalarType::Float:
      return run<float>(s, out, index, src, counts, count, stream);
    case ScalarType::Double:
      return run<double>(s, out, index, src, counts, count, stream);
    case ScalarType::Int:
      return run<int32_t>(s, out, index, src, counts, count, stream);
    case ScalarType::Long:
      return run<int64_t>(s, out, index, src, counts, count, stream);
    default:
      return make_error(Error::InvalidType,
                        "scatter_reduce: found %s, expected a floating-point dtype of 16 bits or "
                        "more, int32 or int64",
                        name_of(s.dtype));
  }
}

}  // namespace pteron::cuda
