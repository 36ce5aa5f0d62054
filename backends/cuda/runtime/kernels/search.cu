#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/search.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void search_kernel(__grid_constant__ const Search search, ScalarType out_dtype,
                              void* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < search.count;
       i += step) {
    const int64_t row = i / search.per_row * search.length;
    const T value = load_as<T>(search.values, search.values_dtype, i);
    int64_t low = 0, high = search.length;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      int64_t at = middle;
      if (search.order) {
        at = search.order[row + middle];
        at = at < 0 ? 0 : at < search.length ? at : search.length - 1;
      }
      const T element = load_as<T>(search.sequence, search.sequence_dtype, row + at);
      if (search.right ? !(element > value) : !(element >= value)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    store_as<int64_t>(out, out_dtype, i, low);
  }
}

bool is_float8(ScalarType dtype) {
  return dtype == ScalarType::Float8_e5m2 || dtype == ScalarType::Float8_e4m3fn;
}

}  // namespace

Error search_rows(const Search& search, ScalarType out_dtype, void* out, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(!is_float8(search.sequence_dtype) && !is_float8(search.values_dtype),
                         Error::InvalidType, "search: found %s in %s, expected other types",
                         name_of(search.values_dtype), name_of(search.sequence_dtype));
  if (search.count == 0) return Error::Ok;
  const int64_t needed = (search.count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < 65536 ? needed : 65536);
  const auto launch = [&](auto kernel) {
    kernel<<<blocks, kThreads, 0, stream>>>(search, out_dtype, out);
  };
  if (search.compared == ScalarType::Double) {
    launch(search_kernel<double>);
  } else if (is_floating(search.compared)) {
    launch(search_kernel<float>);
  } else if (search.compared == ScalarType::UInt64) {
    launch(search_kernel<uint64_t>);
  } else {
    launch(search_kernel<int64_t>);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "searching sorted rows");
  return Error::Ok;
}

}  // namespace pteron::cuda
