#include <limits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/strided_copy.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Index>
struct Geometry {
  int dims;
  Index sizes[kMaxCopyDims];
  Index target_strides[kMaxCopyDims];
  Index source_strides[kMaxCopyDims];
};

template <typename Item, typename Index, bool kZero>
__global__ void copy_kernel(Item* target, const Item* source, Index count,
                            __grid_constant__ const Geometry<Index> geometry) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    Index rest = i, to = 0, from = 0;
    for (int d = geometry.dims - 1; d > 0; --d) {
      const Index quotient = rest / geometry.sizes[d];
      const Index coordinate = rest - quotient * geometry.sizes[d];
      to += coordinate * geometry.target_strides[d];
      from += coordinate * geometry.source_strides[d];
      rest = quotient;
    }
    if (geometry.dims > 0) {
      to += rest * geometry.target_strides[0];
      from += rest * geometry.source_strides[0];
    }
    target[to] = kZero ? Item{} : source[from];
  }
}

template <typename Item, typename Index>
Error launch(const StridedCopy& copy, int64_t count, cudaStream_t stream) {
  Geometry<Index> geometry{};
  geometry.dims = copy.dims;
  for (int i = 0; i < copy.dims; ++i) {
    geometry.sizes[i] = static_cast<Index>(copy.sizes[i]);
    geometry.target_strides[i] = static_cast<Index>(copy.target_strides[i]);
    geometry.source_strides[i] = static_cast<Index>(copy.source_strides[i]);
  }
  // Enough blocks to fill any device; a grid-stride loop does the rest.
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  const unsigned grid = static_cast<unsigned>(blocks < 8192 ? blocks : 8192);
  auto* target = static_cast<Item*>(copy.target);
  const auto* source = static_cast<const Item*>(copy.source);
  if (copy.source) {
    copy_kernel<Item, Index, false>
        <<<grid, kThreads, 0, stream>>>(target, source, static_cast<Index>(count), geometry);
  } else {
    copy_kernel<Item, Index, true>
        <<<grid, kThreads, 0, stream>>>(target, source, static_cast<Index>(count), geometry);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching a strided copy");
  return Error::Ok;
}

template <typename Item>
Error launch(const StridedCopy& copy, int64_t count, cudaStream_t stream) {
  // The largest offset decides whether 32-bit arithmetic suffices.
  int64_t target_reach = 0, source_reach = 0;
  for (int i = 0; i < copy.dims; ++i) {
    target_reach += (copy.sizes[i] - 1) * copy.target_strides[i];
    source_reach += (copy.sizes[i] - 1) * copy.source_strides[i];
  }
  // Half of the range, so that the stride of the loop cannot overflow.
  constexpr int64_t kLimit = std::numeric_limits<uint32_t>::max() / 2;
  if (count < kLimit && target_reach < kLimit && source_reach < kLimit) {
    return launch<Item, uint32_t>(copy, count, stream);
  }
  return launch<Item, int64_t>(copy, count, stream);
}

}  // namespace

Error strided_copy(const StridedCopy& copy, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(copy.dims >= 0 && copy.dims <= kMaxCopyDims, Error::InvalidArgument,
                         "strided copy: found %d dimensions, expected at most %d", copy.dims,
                         kMaxCopyDims);
  int64_t count = 1;
  for (int i = 0; i < copy.dims; ++i) count *= copy.sizes[i];
  if (count == 0) return Error::Ok;
  const StridedCopy simple = simplify(copy);
  count = 1;
  for (int i = 0; i < simple.dims; ++i) count *= simple.sizes[i];
  switch (simple.item_nbytes) {
    case 1:
      return launch<uint8_t>(simple, count, stream);
    case 2:
      return launch<uint16_t>(simple, count, stream);
    case 4:
      return launch<uint32_t>(simple, count, stream);
    case 8:
      return launch<uint64_t>(simple, count, stream);
    case 16:
      return launch<uint4>(simple, count, stream);
    default:
      return make_error(Error::InvalidArgument,
                        "strided copy: found items of %zu bytes, expected 1, 2, 4, 8 or 16",
                        simple.item_nbytes);
  }
}

}  // namespace pteron::cuda
