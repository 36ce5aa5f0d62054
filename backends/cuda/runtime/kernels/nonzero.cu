#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_select.cuh>
#include <utility>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/capture.h"
#include "pteron/backends/cuda/runtime/kernels/items.cuh"
#include "pteron/backends/cuda/runtime/kernels/nonzero.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

struct IsNonzero {
  const void* x;
  ScalarType dtype;

  __device__ bool operator()(int64_t i) const {
    switch (dtype) {
      case ScalarType::Long:
      case ScalarType::UInt64:
        return static_cast<const int64_t*>(x)[i] != 0;
      case ScalarType::Double:
        return static_cast<const double*>(x)[i] != 0.0;
      default:
        return load_as<float>(x, dtype, i) != 0.0f;  // NaN counts; no number rounds to 0
    }
  }
};

struct Coordinates {
  int dims;
  int64_t sizes[16];
};

__global__ void coordinates_kernel(__grid_constant__ const Coordinates c, const int64_t* indices,
                                   int64_t count, int64_t* coordinates) {
  for_each_item(count, [&](int64_t i) {
    int64_t rest = indices[i];
    for (int d = c.dims; d-- > 0;) {
      coordinates[d * count + i] = rest % c.sizes[d];
      rest /= c.sizes[d];
    }
  });
}

bool is_known(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::Bool:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<Nonzero> find_nonzero(ScalarType dtype, const void* x, int64_t count, int device,
                             cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(is_known(dtype), Error::InvalidType,
                         "nonzero: found %s, expected real numbers of 8 bits or more",
                         name_of(dtype));
  Nonzero found;
  if (count == 0) return found;
  if (Error error =
          refuse_during_capture("nonzero", "the size of the result depends on data", stream);
      !error.ok()) {
    return std::move(error);
  }
  PTERON_ASSIGN_OR_RETURN(found.indices,
                          allocate_scratch(static_cast<size_t>(count) * sizeof(int64_t), device));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef total, allocate_scratch(sizeof(int64_t), device));
  const thrust::counting_iterator<int64_t> all(0);
  const auto select = [&](void* scratch, size_t* nbytes) {
    return cub::DeviceSelect::If(scratch, *nbytes, all, static_cast<int64_t*>(found.indices->data),
                                 static_cast<int64_t*>(total->data), count, IsNonzero{x, dtype},
                                 stream);
  };
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(select(nullptr, &nbytes), "sizing the search for nonzero elements");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch, allocate_scratch(nbytes, device));
  PTERON_CUDA_RETURN_IF_ERROR(select(scratch->data, &nbytes), "searching for nonzero elements");
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(&found.count, total->data, sizeof(int64_t), cudaMemcpyDeviceToHost, stream),
      "counting nonzero elements");
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "counting nonzero elements");
  return found;
}

Error write_coordinates(const Nonzero& found, const int64_t* sizes, int dims, int64_t* coordinates,
                        cudaStream_t stream) {
  if (found.count == 0 || dims == 0) return Error::Ok;
  Coordinates c{};
  c.dims = dims;
  for (int d = 0; d < dims; ++d) c.sizes[d] = sizes[d];
  coordinates_kernel<<<item_blocks(found.count), kItemThreads, 0, stream>>>(
      c, static_cast<const int64_t*>(found.indices->data), found.count, coordinates);
  return launched("writing coordinates");
}

}  // namespace pteron::cuda
