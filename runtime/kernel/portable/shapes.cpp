#include "pteron/runtime/kernel/portable/shapes.h"

#include <algorithm>
#include <string>

namespace pteron::kernels {

Error resize_out(Tensor& out, Span<const int64_t> sizes) {
  const Span<const int64_t> found = out.sizes();
  if (found.size() == sizes.size() && std::equal(found.begin(), found.end(), sizes.begin())) {
    return Error::Ok;
  }
  Error error = out.resize(sizes);
  if (error.ok()) return error;
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return std::move(error).with_context("the result is [" + text + "], its memory " +
                                       out.describe());
}

Result<size_t> checked_dim(const Tensor& tensor, int64_t dim) {
  const auto count = static_cast<int64_t>(tensor.dim());
  PTERON_CHECK_OR_RETURN(dim >= -count && dim < count, Error::InvalidArgument,
                         "found dimension %lld of %s", static_cast<long long>(dim),
                         tensor.describe().c_str());
  return static_cast<size_t>(dim < 0 ? dim + count : dim);
}

}  // namespace pteron::kernels
