// Matrix products, plainly: for the small ones that no delegate took.
#include <algorithm>
#include <type_traits>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

// out[m, n] = beta * addend[m, n] + alpha * sum over k of a[m, k] * b[k, n]
//
// A block of columns at a time; sums are kept in double for floating types.
template <typename Number>
void multiply(const View& a, const View& b, const View* addend, double beta, double alpha,
              const View& out) {
  using Sum = std::conditional_t<std::is_floating_point_v<Number>, double, Number>;
  Number b_buffer[kBlock];
  Sum sums[kBlock];
  for (int64_t m = 0; m < out.sizes[0]; ++m) {
    for (int64_t n = 0; n < out.sizes[1]; n += kBlock) {
      const int64_t count = std::min(kBlock, out.sizes[1] - n);
      std::fill_n(sums, count, Sum{0});
      for (int64_t k = 0; k < a.sizes[1]; ++k) {
        const auto factor = static_cast<Sum>(
            load_one<Number>(a.dtype, a.data + m * a.strides[0] + k * a.strides[1]));
        const Number* row = load_block(b.dtype, b.data + k * b.strides[0] + n * b.strides[1],
                                       b.strides[1], count, b_buffer);
        for (int64_t j = 0; j < count; ++j) sums[j] += factor * static_cast<Sum>(row[j]);
      }
      for (int64_t j = 0; j < count; ++j) {
        if (alpha != 1) sums[j] = static_cast<Sum>(sums[j] * static_cast<Sum>(alpha));
        if (!addend || beta == 0) continue;
        const std::byte* added =
            addend->data + m * addend->strides[0] + (n + j) * addend->strides[1];
        sums[j] +=
            static_cast<Sum>(beta) * static_cast<Sum>(load_one<Number>(addend->dtype, added));
      }
      store_block(out.dtype, out.data + m * out.strides[0] + n * out.strides[1], out.strides[1],
                  count, sums);
    }
  }
}

void multiply(const View& a, const View& b, const View* addend, double beta, double alpha,
              const View& out) {
  dispatch_number(a.dtype,
                  [&](auto number) { multiply<decltype(number)>(a, b, addend, beta, alpha, out); });
}

Error check(const Tensor& a, const Tensor& b, size_t rank) {
  bool fits = a.dim() == rank && b.dim() == rank && a.dtype() == b.dtype();
  fits = fits && a.size(rank - 1) == b.size(rank - 2) && (rank == 2 || a.size(0) == b.size(0));
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "%s and %s cannot be multiplied",
                         a.describe().c_str(), b.describe().c_str());
  return Error::Ok;
}

Error product(const Tensor& a, const Tensor& b, const Tensor* addend, double beta, double alpha,
              Tensor& out) {
  PTERON_RETURN_IF_ERROR(check(a, b, 2));
  const int64_t sizes[] = {a.size(0), b.size(1)};
  PTERON_RETURN_IF_ERROR(resize_out(out, sizes));
  View addend_view;
  if (addend) {
    PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({addend->sizes(), sizes}));
    PTERON_CHECK_OR_RETURN(
        shape.dim == 2 && shape.numel() == sizes[0] * sizes[1], Error::InvalidArgument,
        "%s cannot be added to a product of [%lld, %lld]", addend->describe().c_str(),
        static_cast<long long>(sizes[0]), static_cast<long long>(sizes[1]));
    addend_view = view_of(*addend).expanded(sizes);
  }
  multiply(view_of(a), view_of(b), addend ? &addend_view : nullptr, beta, alpha, view_of(out));
  return Error::Ok;
}

Error batched_product(const Tensor& a, const Tensor& b, const Tensor* addend, double beta,
                      double alpha, Tensor& out) {
  PTERON_RETURN_IF_ERROR(check(a, b, 3));
  const int64_t sizes[] = {a.size(0), a.size(1), b.size(2)};
  PTERON_RETURN_IF_ERROR(resize_out(out, sizes));
  View addend_view;
  if (addend) {
    PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({addend->sizes(), sizes}));
    PTERON_CHECK_OR_RETURN(shape.dim == 3 && shape.numel() == out.numel(), Error::InvalidArgument,
                           "%s cannot be added to %s", addend->describe().c_str(),
                           out.describe().c_str());
    addend_view = view_of(*addend).expanded(sizes);
  }
  for (int64_t i = 0; i < sizes[0]; ++i) {
    const View added = addend ? addend_view.selected(0, i) : View();
    multiply(view_of(a).selected(0, i), view_of(b).selected(0, i), addend ? &added : nullptr, beta,
             alpha, view_of(out).selected(0, i));
  }
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(mm_out, (const Tensor& a, const Tensor& b, Tensor& out)) {
  return product(a, b, nullptr, 0, 1, out);
}
PTERON_DEFINE_KERNEL(addmm_out, (const Tensor& addend, const Tensor& a, const Tensor& b,
                                 Scalar beta, Scalar alpha, Tensor& out)) {
  return product(a, b, &addend, beta.to<double>(), alpha.to<double>(), out);
}
PTERON_DEFINE_KERNEL(bmm_out, (const Tensor& a, const Tensor& b, Tensor& out)) {
  return batched_product(a, b, nullptr, 0, 1, out);
}
PTERON_DEFINE_KERNEL(baddbmm_out, (const Tensor& addend, const Tensor& a, const Tensor& b,
                                   Scalar beta, Scalar alpha, Tensor& out)) {
  return batched_product(a, b, &addend, beta.to<double>(), alpha.to<double>(), out);
}

}  // namespace pteron::kernels
