#include "pteron/runtime/core/tensor.h"

#include <algorithm>
#include <numeric>

namespace pteron {
namespace {

// Strides of a dense tensor; an empty dimension counts as size 1, as in torch.
void set_strides(Span<const int64_t> sizes, Span<const uint8_t> dim_order, int64_t* strides) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    const uint8_t dim = dim_order[i];
    strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
}

// "[2, 3]"
std::string list(Span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

Error check_sizes(ScalarType dtype, Span<const int64_t> sizes) {
  PTERON_CHECK_OR_RETURN(is_valid(dtype), Error::InvalidType, "unknown scalar type %d",
                         static_cast<int>(dtype));
  PTERON_CHECK_OR_RETURN(sizes.size() <= kMaxTensorDims, Error::InvalidArgument,
                         "%zu dimensions, at most %zu are possible", sizes.size(), kMaxTensorDims);
  int64_t nbytes = static_cast<int64_t>(element_size(dtype));
  for (const int64_t size : sizes) {
    PTERON_CHECK_OR_RETURN(size >= 0, Error::InvalidArgument, "negative size in %s",
                           list(sizes).c_str());
    PTERON_CHECK_OR_RETURN(!__builtin_mul_overflow(nbytes, std::max<int64_t>(size, 1), &nbytes),
                           Error::InvalidArgument, "%s%s has more bytes than can be counted",
                           name_of(dtype), list(sizes).c_str());
  }
  return Error::Ok;
}

Error check_dim_order(Span<const uint8_t> dim_order, size_t dim) {
  PTERON_CHECK_OR_RETURN(dim_order.size() == dim, Error::InvalidArgument,
                         "dim order of %zu dimensions for a tensor of %zu", dim_order.size(), dim);
  uint32_t seen = 0;
  for (const uint8_t d : dim_order) {
    PTERON_CHECK_OR_RETURN(d < dim && !(seen >> d & 1), Error::InvalidArgument,
                           "dim order is not a permutation of 0..%zu", dim - 1);
    seen |= 1u << d;
  }
  return Error::Ok;
}

}  // namespace

Result<Tensor> Tensor::make(ScalarType dtype, Span<const int64_t> sizes, void* data,
                            Device device) {
  std::array<uint8_t, kMaxTensorDims> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  // Too many dimensions are reported below, not read here.
  return make(dtype, sizes, {order.data(), std::min(sizes.size(), kMaxTensorDims)}, data, device);
}

Result<Tensor> Tensor::make(ScalarType dtype, Span<const int64_t> sizes,
                            Span<const uint8_t> dim_order, void* data, Device device,
                            ShapeDynamism dynamism) {
  PTERON_RETURN_IF_ERROR(check_sizes(dtype, sizes));
  PTERON_RETURN_IF_ERROR(check_dim_order(dim_order, sizes.size()));
  Tensor tensor;
  tensor.data_ = data;
  tensor.dim_ = sizes.size();
  tensor.dtype_ = dtype;
  tensor.dynamism_ = dynamism;
  tensor.device_ = device;
  tensor.numel_ = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    tensor.dim_order_[i] = dim_order[i];
    tensor.sizes_[i] = sizes[i];
    tensor.max_sizes_[i] = sizes[i];
    tensor.numel_ *= sizes[i];
  }
  tensor.capacity_nbytes_ = data ? tensor.nbytes() : 0;
  set_strides(sizes, dim_order, tensor.strides_.data());
  return tensor;
}

size_t Tensor::max_nbytes() const {
  size_t nbytes = element_size(dtype_);
  for (size_t i = 0; i < dim_; ++i) nbytes *= static_cast<size_t>(max_sizes_[i]);
  return nbytes;
}

bool Tensor::has_sizes(Span<const int64_t> sizes) const {
  return sizes.size() == dim_ && std::equal(sizes.begin(), sizes.end(), sizes_.begin());
}

Error Tensor::resize(Span<const int64_t> sizes) {
  if (has_sizes(sizes)) return Error::Ok;
  PTERON_RETURN_IF_ERROR(check_resize(sizes, capacity_nbytes_));
  set_sizes(sizes);
  return Error::Ok;
}

Error Tensor::share_data(const Tensor& other, Span<const int64_t> sizes) {
  const bool same = has_sizes(sizes) && nbytes() <= other.capacity_nbytes_;
  if (!same) {
    PTERON_RETURN_IF_ERROR(check_resize(sizes, other.capacity_nbytes_));
    set_sizes(sizes);
  }
  data_ = other.data_;
  capacity_nbytes_ = other.capacity_nbytes_;
  is_constant_ = other.is_constant_;
  return Error::Ok;
}

Error Tensor::check_resize(Span<const int64_t> sizes, size_t capacity_nbytes) const {
  PTERON_CHECK_OR_RETURN(dynamism_ != ShapeDynamism::Static || has_sizes(sizes),
                         Error::InvalidArgument, "%s is static and cannot become %s",
                         describe().c_str(), list(sizes).c_str());
  PTERON_CHECK_OR_RETURN(sizes.size() == dim_, Error::InvalidArgument,
                         "%s cannot become %s, which has another rank", describe().c_str(),
                         list(sizes).c_str());
  size_t nbytes = element_size(dtype_);  // no overflow below: the bound has none
  for (size_t i = 0; i < dim_; ++i) {
    PTERON_CHECK_OR_RETURN(sizes[i] >= 0 && sizes[i] <= max_sizes_[i], Error::InvalidArgument,
                           "size %lld of dimension %zu is not within 0..%lld",
                           static_cast<long long>(sizes[i]), i,
                           static_cast<long long>(max_sizes_[i]));
    nbytes *= static_cast<size_t>(sizes[i]);
  }
  PTERON_CHECK_OR_RETURN(nbytes <= capacity_nbytes, Error::InvalidArgument,
                         "%s cannot become %s: that takes %zu bytes, and its memory has %zu",
                         describe().c_str(), list(sizes).c_str(), nbytes, capacity_nbytes);
  return Error::Ok;
}

void Tensor::set_sizes(Span<const int64_t> sizes) {
  numel_ = 1;
  for (size_t i = 0; i < dim_; ++i) {
    sizes_[i] = sizes[i];
    numel_ *= sizes[i];
  }
  set_strides(sizes, dim_order(), strides_.data());
}

std::string Tensor::describe() const { return std::string(name_of(dtype_)) + list(sizes()); }

}  // namespace pteron
