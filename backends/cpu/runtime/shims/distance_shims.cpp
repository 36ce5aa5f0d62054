// Distances between all pairs of rows.
#include <algorithm>
#include <cmath>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

// The p-norm of a - b.
template <typename T>
T distance(const T* a, const T* b, int64_t length, double p) {
  T sum = 0;
  if (p == 0) {
    for (int64_t i = 0; i < length; ++i) sum += a[i] != b[i] ? T(1) : T(0);
  } else if (p == 1) {
    for (int64_t i = 0; i < length; ++i) sum += std::abs(a[i] - b[i]);
  } else if (p == 2) {
    for (int64_t i = 0; i < length; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    sum = std::sqrt(sum);
  } else if (std::isinf(p)) {
    for (int64_t i = 0; i < length; ++i) {
      const T difference = std::abs(a[i] - b[i]);
      if (difference > sum || difference != difference) sum = difference;
    }
  } else {
    for (int64_t i = 0; i < length; ++i) sum += std::pow(std::abs(a[i] - b[i]), static_cast<T>(p));
    sum = std::pow(sum, static_cast<T>(1 / p));
  }
  return sum;
}

// The batch dimensions, in front of rows and columns.
Result<TensorPtr> batch_of(const SlimTensor& tensor, Span<const int64_t> batch) {
  int64_t sizes[slim::kMaxDims];
  std::copy(batch.begin(), batch.end(), sizes);
  sizes[batch.size()] = tensor.size(tensor.dim() - 2);
  sizes[batch.size() + 1] = tensor.size(tensor.dim() - 1);
  PTERON_ASSIGN_OR_RETURN(
      TensorPtr out,
      slim::make_tensor(Span<const int64_t>(sizes, batch.size() + 2), tensor.dtype()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, tensor));
  return out;
}

Error cdist(AtenTensorHandle x1, AtenTensorHandle x2, double p, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(x1, "x1"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(x2, "x2"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_CHECK_OR_RETURN(x1->dim() >= 2 && x2->dim() >= 2 && x1->dtype() == x2->dtype() &&
                             x1->size(x1->dim() - 1) == x2->size(x2->dim() - 1) && p >= 0,
                         Error::InvalidArgument,
                         "found x1 %s, x2 %s, p %g, expected one dtype, 2 or more dimensions, "
                         "equal last sizes and p >= 0",
                         x1->describe().c_str(), x2->describe().c_str(), p);
  const size_t rank1 = x1->dim() - 2, rank2 = x2->dim() - 2, rank = std::max(rank1, rank2);
  int64_t batch[slim::kMaxDims];
  for (size_t i = 0; i < rank; ++i) {
    const int64_t a = i < rank1 ? x1->size(rank1 - 1 - i) : 1,
                  b = i < rank2 ? x2->size(rank2 - 1 - i) : 1;
    PTERON_CHECK_OR_RETURN(a == b || a == 1 || b == 1, Error::InvalidArgument,
                           "found x1 %s, x2 %s, expected batches that broadcast",
                           x1->describe().c_str(), x2->describe().c_str());
    batch[rank - 1 - i] = a == 1 ? b : a;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr a, batch_of(*x1, Span<const int64_t>(batch, rank)));
  PTERON_ASSIGN_OR_RETURN(TensorPtr b, batch_of(*x2, Span<const int64_t>(batch, rank)));
  const int64_t rows = a->size(rank), cols = b->size(rank), length = a->size(rank + 1);
  int64_t sizes[slim::kMaxDims];
  std::copy(batch, batch + rank, sizes);
  sizes[rank] = rows;
  sizes[rank + 1] = cols;
  PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                          slim::make_tensor(Span<const int64_t>(sizes, rank + 2), x1->dtype()));
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    const int64_t lines = rows == 0 || cols == 0 ? 0 : out->numel() / cols;
    parallel_for(
        lines, 16384 / std::max<int64_t>(cols * length, 1) + 1, [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const T* left = a->data_as<const T>() + line * length;
            const T* right = b->data_as<const T>() + line / rows * cols * length;
            for (int64_t j = 0; j < cols; ++j) {
              out->data_as<T>()[line * cols + j] = distance<T>(left, right + j * length, length, p);
            }
          }
        });
  };
  if (x1->dtype() == DType::Float) {
    fill(0.0f);
  } else if (x1->dtype() == DType::Double) {
    fill(0.0);
  } else {
    return PTERON_CPU_NO_DTYPE(x1);
  }
  *ret = out.release();
  return Error::Ok;
}

}  // namespace

// The compute mode chooses between ways to the same numbers; this is the exact one.
PTERON_AOTI_SHIM(AOTITorchError, cpu__cdist_forward)
(AtenTensorHandle x1, AtenTensorHandle x2, double p, int64_t*, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu__cdist_forward", [&] { return cdist(x1, x2, p, ret); });
}

}  // namespace pteron::cpu
