#include "pteron/backends/aoti/ops/index/index.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/indexing.h"
#include "pteron/backends/cuda/runtime/kernels/nonzero.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

using Kind = aoti::IndexCall::Kind;

Error fill(const SlimTensor& out, const slim::Scalar& value) {
  if (out.numel() == 0) return Error::Ok;
  alignas(16) char item[16];
  slim::store_scalar(out.dtype(), item, value);
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(out));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr one, aoti::make_row_major({}, out.dtype(), out.device()));
  PTERON_RETURN_IF_ERROR(set_item(out.item_size(), one->data(), item, scope.stream()));
  return slim::copy_tensor(out, *one, true);
}

Error index(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  Indexing indexing;
  for (size_t d = 0; d < x.dim(); ++d) indexing.add_dim(x.size(d), x.stride(d), other.stride(d));
  for (const aoti::Indexed::Picked& picked : call.indexed.picked) {
    const SlimTensor& numbers = *picked.numbers;
    IndexedDim& dim = indexing.add_index({numbers.data(), numbers.dtype() == DType::Long},
                                         picked.size, picked.stride);
    std::copy(numbers.strides().begin(), numbers.strides().end(), dim.strides + call.indexed.first);
  }
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(x));
  if (call.kind == Kind::kRead) {
    return index_read(indexing, x.item_size(), x.data(), other.data(), scope.stream());
  }
  if (call.kind == Kind::kWrite) {
    return index_write(indexing, x.item_size(), x.data(), other.data(), scope.stream());
  }
  slim::StorageRef counts;
  if (call.kind == Kind::kMean && x.numel() > 0) {
    const size_t nbytes = static_cast<size_t>(call.indexed.reach()) * sizeof(int32_t);
    PTERON_ASSIGN_OR_RETURN(counts, allocate_scratch(nbytes, scope.device()));
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counts->data, 0, nbytes, scope.stream()),
                                "counting reduced values");
  }
  // Both lists have the same reductions, in the same order.
  const auto reduction =
      static_cast<Reduction>(static_cast<int>(call.kind) - static_cast<int>(Kind::kSum));
  return index_reduce(indexing, reduction, call.include_self, type_of(x), x.data(), other.data(),
                      counts ? static_cast<int32_t*>(counts->data) : nullptr, scope.stream());
}

Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(self));
  PTERON_ASSIGN_OR_RETURN(
      const Nonzero found,
      find_nonzero(type_of(self), dense->data(), self.numel(), scope.device(), scope.stream()));
  const int64_t sizes[] = {found.count, static_cast<int64_t>(self.dim())};
  const int64_t strides[] = {1, std::max<int64_t>(found.count, 1)};
  PTERON_ASSIGN_OR_RETURN(coordinates,
                          slim::make_tensor(sizes, strides, DType::Long, self.device()));
  return write_coordinates(found, self.sizes().data(), static_cast<int>(self.dim()),
                           coordinates->data_as<int64_t>(), scope.stream());
}

}  // namespace pteron::cuda
