#include "pteron/backends/aoti/ops/linalg/matrices.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

Error check_matrices(const SlimTensor& tensor, const char* name, bool square) {
  const size_t n = tensor.dim();
  PTERON_CHECK_OR_RETURN(n >= 2 && (!square || tensor.size(n - 1) == tensor.size(n - 2)) &&
                             tensor.size(n - 1) <= INT32_MAX && tensor.size(n - 2) <= INT32_MAX,
                         Error::InvalidArgument,
                         "found %s %s, expected %smatrices in its last two dimensions", name,
                         tensor.describe().c_str(), square ? "square " : "");
  PTERON_CHECK_OR_RETURN(tensor.dtype() == DType::Float || tensor.dtype() == DType::Double,
                         Error::InvalidType, "found %s %s, expected float32 or float64", name,
                         tensor.describe().c_str());
  return Error::Ok;
}

Result<TensorPtr> make_leading(const SlimTensor& like, size_t drop, DType dtype) {
  return make_row_major({like.sizes().data(), like.dim() - drop}, dtype, like.device());
}

Result<TensorPtr> make_column_major(Span<const int64_t> sizes, const SlimTensor& like) {
  int64_t strides[slim::kMaxDims];
  slim::contiguous_strides(sizes, strides);
  const size_t n = sizes.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<int64_t>(sizes[n - 2], 1);
  return slim::make_tensor(sizes, {strides, n}, like.dtype(), like.device());
}

Result<TensorPtr> make_none(const SlimTensor& like) {
  const int64_t none = 0;
  return make_row_major({&none, 1}, like.dtype(), like.device());
}

Result<TensorPtr> transposed(const SlimTensor& tensor) {
  Sizes sizes(tensor);
  int64_t strides[slim::kMaxDims];
  std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  std::swap(sizes.values[sizes.dim - 1], sizes.values[sizes.dim - 2]);
  std::swap(strides[sizes.dim - 1], strides[sizes.dim - 2]);
  return make_view(tensor, sizes, {strides, sizes.dim}, tensor.storage_offset());
}

void* element(const SlimTensor& tensor, int64_t i) {
  return tensor.data_as<char>() + i * static_cast<int64_t>(tensor.item_size());
}

Error corner_of(const SlimTensor& tensor, int64_t rows, int64_t cols, SlimTensor* corner) {
  Sizes sizes(tensor);
  sizes.values[sizes.dim - 2] = rows;
  sizes.values[sizes.dim - 1] = cols;
  return corner->set(tensor.storage(), sizes, tensor.strides(), tensor.storage_offset(),
                     tensor.dtype());
}

Result<TensorPtr> column_major_copy(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, make_column_major(tensor.sizes(), tensor));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor, true));
  return copy;
}

Error check_info(const SlimTensor& info, const char* found, const char* expected) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr host, slim::make_tensor(info.sizes(), DType::Int));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*host, info));
  for (int64_t i = 0; i < host->numel(); ++i) {
    const int32_t column = host->data_as<int32_t>()[i];
    PTERON_CHECK_OR_RETURN(column == 0, Error::InvalidArgument,
                           "matrix %lld of the batch: found %s %d, expected %s",
                           static_cast<long long>(i), found, column, expected);
  }
  return Error::Ok;
}

Error each_matrix(const Kernels& kernels, Kind kind, const SlimTensor& tensor, bool upper) {
  const Batch batch(tensor);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(kind, i);
    call.upper = upper;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  return Error::Ok;
}

}  // namespace pteron::aoti::ops
