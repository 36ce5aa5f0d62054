#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cub/device/device_select.cuh>

#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/capture.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

struct IsNonzero {
  Numbers x;

  __device__ bool operator()(int64_t i) const {
    switch (x.dtype) {
      case ScalarType::Long:
      case ScalarType::UInt64:
        return static_cast<const int64_t*>(x.data)[i] != 0;
      case ScalarType::Double:
        return static_cast<const double*>(x.data)[i] != 0.0;
      default:
        return x.load<float>(i) != 0.0f;  // NaN counts; no number rounds to 0
    }
  }
};

struct Shape {
  int dims;
  int64_t sizes[slim::kMaxDims];
};

// The coordinate in dimension d of the i-th element goes to coordinates[d * count + i].
__global__ void coordinates_kernel(__grid_constant__ const Shape shape, const int64_t* indices,
                                   int64_t count, int64_t* coordinates) {
  for_each_item(count, [&](int64_t i) {
    int64_t rest = indices[i];
    for (int d = shape.dims; d-- > 0;) {
      coordinates[d * count + i] = rest % shape.sizes[d];
      rest /= shape.sizes[d];
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

struct Found {
  slim::StorageRef indices;  // int64, ascending
  int64_t count = 0;
};

// Waits for the stream, since the number that is found sizes what follows.
Error find(const SlimTensor& x, const DeviceScope& scope, Found& found) {
  PTERON_CHECK_OR_RETURN(is_known(type_of(x)), Error::InvalidType,
                         "nonzero: found %s, expected real numbers of 8 bits or more",
                         slim::name_of(x.dtype()));
  const int64_t count = x.numel();
  if (count == 0) return Error::Ok;
  const cudaStream_t stream = scope.stream();
  PTERON_RETURN_IF_ERROR(
      refuse_during_capture("nonzero", "the size of the result depends on data", stream));
  PTERON_ASSIGN_OR_RETURN(
      found.indices,
      allocate_scratch(static_cast<size_t>(count) * sizeof(int64_t), scope.device()));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef total,
                          allocate_scratch(sizeof(int64_t), scope.device()));
  const thrust::counting_iterator<int64_t> all(0);
  const auto select = [&](void* scratch, size_t* nbytes) {
    return cub::DeviceSelect::If(scratch, *nbytes, all, static_cast<int64_t*>(found.indices->data),
                                 static_cast<int64_t*>(total->data), count,
                                 IsNonzero{numbers_of(x)}, stream);
  };
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(select(nullptr, &nbytes), "sizing the search for nonzero elements");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch, allocate_scratch(nbytes, scope.device()));
  PTERON_CUDA_RETURN_IF_ERROR(select(scratch->data, &nbytes), "searching for nonzero elements");
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(&found.count, total->data, sizeof(int64_t), cudaMemcpyDeviceToHost, stream),
      "counting nonzero elements");
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "counting nonzero elements");
  return Error::Ok;
}

}  // namespace

Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(self));
  Found found;
  PTERON_RETURN_IF_ERROR(find(*dense, scope, found));
  const int64_t sizes[] = {found.count, static_cast<int64_t>(self.dim())};
  const int64_t strides[] = {1, std::max<int64_t>(found.count, 1)};
  PTERON_ASSIGN_OR_RETURN(coordinates,
                          slim::make_tensor(sizes, strides, DType::Long, self.device()));
  if (found.count == 0 || self.dim() == 0) return Error::Ok;
  Shape shape{static_cast<int>(self.dim()), {}};
  std::copy(self.sizes().begin(), self.sizes().end(), shape.sizes);
  return launch_items(found.count, scope.stream(), "writing coordinates", coordinates_kernel, shape,
                      static_cast<const int64_t*>(found.indices->data), found.count,
                      coordinates->data_as<int64_t>());
}

}  // namespace pteron::cuda
