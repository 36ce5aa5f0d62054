#include "pteron/backends/example/blas/runtime/contiguous.h"

#include <array>
#include <cstring>
#include <new>

namespace pteron::blas {

Result<float*> FloatBuffer::reserve(int64_t count) {
  if (count > capacity_ || !data_) {
    capacity_ = 0;
    data_.reset(new (std::nothrow) float[static_cast<size_t>(count)]);
    PTERON_CHECK_OR_RETURN(data_ != nullptr, Error::MemoryAllocationFailed,
                           "no memory for %lld floats", static_cast<long long>(count));
    capacity_ = count;
  }
  return data_.get();
}

Result<Tensor> make_tensor(Span<const int64_t> sizes, FloatBuffer& buffer) {
  PTERON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::make(ScalarType::Float, sizes, nullptr));
  PTERON_ASSIGN_OR_RETURN(float* const data, buffer.reserve(tensor.numel()));
  tensor.set_data(data);
  return tensor;
}

bool is_contiguous(const Tensor& tensor) {
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.dim_order()[i] != i) return false;
  }
  return true;
}

Result<Tensor> contiguous(const Tensor& tensor, FloatBuffer& buffer) {
  if (is_contiguous(tensor)) return tensor;
  PTERON_ASSIGN_OR_RETURN(Tensor copy, make_tensor(tensor.sizes(), buffer));
  copy_elements(tensor, copy);
  return copy;
}

void copy_elements(const Tensor& from, const Tensor& to) {
  if (is_contiguous(from) && is_contiguous(to)) {
    if (from.nbytes() > 0) std::memcpy(to.data(), from.data(), from.nbytes());
    return;
  }
  std::array<int64_t, kMaxTensorDims> index{};
  for (int64_t left = from.numel(); left > 0; --left) {
    int64_t source = 0, target = 0;
    for (size_t i = 0; i < from.dim(); ++i) {
      source += index[i] * from.strides()[i];
      target += index[i] * to.strides()[i];
    }
    to.data_as<float>()[target] = from.data_as<float>()[source];
    for (size_t i = from.dim(); i-- > 0;) {
      if (++index[i] < from.size(i)) break;
      index[i] = 0;
    }
  }
}

}  // namespace pteron::blas
