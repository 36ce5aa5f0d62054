#include "pteron/backends/example/blas/runtime/products.h"

#include <algorithm>
#include <cstring>

#include "cblas.h"

namespace pteron::blas {
namespace {

// One product of two row-major matrices.
struct Gemm {
  int64_t rows, columns, inner;
  bool right_transposed;
  float alpha, beta;

  void run(const float* left, const float* right, float* out) const {
    scipy_cblas_sgemm(CblasRowMajor, CblasNoTrans, right_transposed ? CblasTrans : CblasNoTrans,
                      static_cast<blasint>(rows), static_cast<blasint>(columns),
                      static_cast<blasint>(inner), alpha, left, leading(inner), right,
                      leading(right_transposed ? inner : columns), beta, out, leading(columns));
  }

  // Of a matrix without columns BLAS wants it to be 1 all the same.
  static blasint leading(int64_t columns) {
    return static_cast<blasint>(std::max<int64_t>(columns, 1));
  }
};

// Puts the bias into every row of out, where BLAS adds the product to it.
Error spread(const Tensor& bias, int64_t rows, int64_t columns, float* out) {
  const bool one_row = bias.numel() == columns && (bias.dim() == 1 || bias.size(0) == 1);
  const bool fits = bias.dim() >= 1 && bias.dim() <= 2 && bias.size(bias.dim() - 1) == columns &&
                    (one_row || (bias.dim() == 2 && bias.size(0) == rows));
  PTERON_CHECK_OR_RETURN(
      fits, Error::InvalidArgument, "the bias is %s; expected a row of %lld, or %lld of them",
      bias.describe().c_str(), static_cast<long long>(columns), static_cast<long long>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(out + row * columns, bias.data_as<float>() + (one_row ? 0 : row * columns),
                static_cast<size_t>(columns) * sizeof(float));
  }
  return Error::Ok;
}

}  // namespace

Result<Sizes> product_sizes(const Tensor& left, const Tensor& right, bool right_transposed) {
  const bool batched = right.dim() == 3;
  const bool ranks = batched ? left.dim() == 3 && !right_transposed && left.size(0) == right.size(0)
                             : left.dim() >= 1 && right.dim() == 2;
  if (ranks) {
    const size_t first = right.dim() - 2;
    const int64_t inner = right.size(first + (right_transposed ? 1 : 0));
    const int64_t columns = right.size(first + (right_transposed ? 0 : 1));
    if (left.size(left.dim() - 1) == inner) {
      Sizes sizes;
      sizes.dim = left.dim();
      std::copy(left.sizes().begin(), left.sizes().end(), sizes.values.begin());
      sizes.values[sizes.dim - 1] = columns;
      return sizes;
    }
  }
  return make_error(Error::InvalidArgument, "%s and %s%s cannot be multiplied",
                    left.describe().c_str(), right.describe().c_str(),
                    right_transposed ? ", transposed," : "");
}

Error multiply(const MultiplyArgs& args, const Tensor& out) {
  const bool batched = args.right.dim() == 3;
  const int64_t count = batched ? out.size(0) : 1;
  const int64_t columns = out.size(out.dim() - 1);
  const int64_t inner = args.left.size(args.left.dim() - 1);
  if (out.numel() == 0) return Error::Ok;
  const int64_t rows = out.numel() / (count * columns);
  PTERON_CHECK_OR_RETURN(std::max({rows, columns, inner}) <= INT32_MAX, Error::NotSupported,
                         "%s has a size above 2^31 - 1, the most that this BLAS can count",
                         out.describe().c_str());

  float* const result = out.data_as<float>();
  const bool adds = args.bias && args.beta != 0;
  if (adds) PTERON_RETURN_IF_ERROR(spread(*args.bias, count * rows, columns, result));
  // With beta 0 the old contents of out are not read.
  const Gemm gemm{rows, columns, inner, args.right_transposed, args.alpha, adds ? args.beta : 0};
  for (int64_t i = 0; i < count; ++i) {
    gemm.run(args.left.data_as<float>() + i * rows * inner,
             args.right.data_as<float>() + i * inner * columns, result + i * rows * columns);
  }
  return Error::Ok;
}

}  // namespace pteron::blas
