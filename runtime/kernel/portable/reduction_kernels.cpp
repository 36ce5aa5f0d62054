// Many elements to one. Floating sums are kept in double, whatever the dtype.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/slices.h"

namespace pteron::kernels {
namespace {

// What a sum of Numbers is kept in.
template <typename Number>
using Sum = std::conditional_t<std::is_floating_point_v<Number>, double, Number>;

// result = f over the elements of each slice, by `fold(accumulated, element)` from `initial`.
template <typename Fold>
void fold_slices(Slices& slices, ScalarType dtype, int initial, Fold fold) {
  dispatch_number(dtype, [&](auto number) {
    using Number = decltype(number);
    while (slices.next()) {
      Sum<Number> accumulated = static_cast<Sum<Number>>(initial);
      for_each_block<Number>(slices.slice(), [&](const Number* numbers, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          accumulated = fold(accumulated, static_cast<Sum<Number>>(numbers[i]));
        }
      });
      store_one(slices.result().dtype, slices.result().data, accumulated);
    }
  });
}

Error sum(const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dims, keepdim, out));
  fold_slices(slices, self.dtype(), 0, [](auto a, auto b) { return a + b; });
  return Error::Ok;
}

Error mean(const Tensor& self, const std::optional<Ints>& dims, bool keepdim, Tensor& out) {
  PTERON_CHECK_OR_RETURN(is_floating(out.dtype()), Error::InvalidType,
                         "the mean is %s, expected a floating type", name_of(out.dtype()));
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dims, keepdim, out));
  const auto count = static_cast<double>(slices.numel());
  while (slices.next()) {
    double total = 0;
    for_each_block<double>(slices.slice(), [&](const double* numbers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) total += numbers[i];
    });
    store_one(slices.result().dtype, slices.result().data, total / count);
  }
  return Error::Ok;
}

// The largest (sign > 0) or smallest element, NaN if there is one.
Error extreme(const Tensor& self, const std::optional<Ints>& dims, bool keepdim, bool largest,
              Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dims, keepdim, out));
  PTERON_CHECK_OR_RETURN(slices.numel() > 0 || out.numel() == 0, Error::InvalidArgument,
                         "%s has no elements to choose from", self.describe().c_str());
  dispatch_number(self.dtype(), [&](auto number) {
    using Number = decltype(number);
    while (slices.next()) {
      Number best = load_one<Number>(slices.slice().dtype, slices.slice().data);
      for_each_block<Number>(slices.slice(), [&](const Number* numbers, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const Number x = numbers[i];
          if (is_nan(x) || (largest ? x > best : x < best)) best = is_nan(best) ? best : x;
        }
      });
      store_one(slices.result().dtype, slices.result().data, best);
    }
  });
  return Error::Ok;
}

// The index of the first extreme (or first NaN) in a slice of one dimension.
template <typename Number>
int64_t find_extreme(const View& slice, bool largest, Number& best) {
  int64_t found = 0;
  int64_t start = 0;
  best = load_one<Number>(slice.dtype, slice.data);
  for_each_block<Number>(slice, [&](const Number* numbers, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Number x = numbers[i];
      if (!is_nan(best) && (is_nan(x) || (largest ? x > best : x < best))) {
        best = x;
        found = start + i;
      }
    }
    start += count;
  });
  return found;
}

Error check_not_empty(const Tensor& self, const Slices& slices, const Tensor& out) {
  PTERON_CHECK_OR_RETURN(slices.numel() > 0 || out.numel() == 0, Error::InvalidArgument,
                         "%s has no elements to choose from", self.describe().c_str());
  return Error::Ok;
}

Error index_of_extreme(KernelContext& context, const Tensor& self,
                       const std::optional<int64_t>& dim, bool keepdim, bool largest, Tensor& out) {
  if (!dim) {  // the index in the flattened tensor
    Slices whole;
    PTERON_ASSIGN_OR_RETURN(whole, Slices::make(self, std::nullopt, keepdim, out));
    PTERON_RETURN_IF_ERROR(check_not_empty(self, whole, out));
    PTERON_ASSIGN_OR_RETURN(const View elements, contiguous(context, self));
    const int64_t sizes[] = {self.numel()};
    const View flat = contiguous_view(elements.dtype, sizes, elements.data);
    dispatch_number(self.dtype(), [&](auto number) {
      store_one(out.dtype(), out.data_as<std::byte>(), find_extreme(flat, largest, number));
    });
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, *dim, keepdim, out));
  PTERON_RETURN_IF_ERROR(check_not_empty(self, slices, out));
  dispatch_number(self.dtype(), [&](auto number) {
    while (slices.next()) {
      const int64_t found = find_extreme(slices.slice(), largest, number);
      store_one(slices.result().dtype, slices.result().data, found);
    }
  });
  return Error::Ok;
}

Error value_and_index(const Tensor& self, int64_t dim, bool keepdim, bool largest, Tensor& values,
                      Tensor& indices) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dim, keepdim, values));
  PTERON_RETURN_IF_ERROR(check_not_empty(self, slices, values));
  PTERON_ASSIGN_OR_RETURN(Slices positions, Slices::make(self, dim, keepdim, indices));
  dispatch_number(self.dtype(), [&](auto number) {
    while (slices.next() && positions.next()) {
      const int64_t found = find_extreme(slices.slice(), largest, number);
      store_one(slices.result().dtype, slices.result().data, number);
      store_one(positions.result().dtype, positions.result().data, found);
    }
  });
  return Error::Ok;
}

Error any_or_all(const Tensor& self, Result<Slices> made, bool all, Tensor& out) {
  (void)out;
  if (!made.ok()) return made.take_error();
  fold_slices(*made, self.dtype(), all ? 1 : 0, [all](auto a, auto b) {
    using T = decltype(a);
    return static_cast<T>(all ? a != T{0} && b != T{0} : a != T{0} || b != T{0});
  });
  return Error::Ok;
}

Error variance(const Tensor& self, const std::optional<Ints>& dims, double correction, bool keepdim,
               Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dims, keepdim, out));
  const auto count = static_cast<double>(slices.numel());
  while (slices.next()) {
    double total = 0;
    for_each_block<double>(slices.slice(), [&](const double* numbers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) total += numbers[i];
    });
    const double mean = total / count;
    double squares = 0;
    for_each_block<double>(slices.slice(), [&](const double* numbers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) squares += (numbers[i] - mean) * (numbers[i] - mean);
    });
    store_one(slices.result().dtype, slices.result().data,
              squares / std::max(count - correction, 0.0));
  }
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(sum_out, (const Tensor& self, Ignored, Tensor& out)) {
  return sum(self, std::nullopt, false, out);
}
PTERON_DEFINE_KERNEL(sum_dims_out, (const Tensor& self, std::optional<Ints> dims, bool keepdim,
                                    Ignored, Tensor& out)) {
  return sum(self, dims, keepdim, out);
}
PTERON_DEFINE_KERNEL(mean_out, (const Tensor& self, Ignored, Tensor& out)) {
  return mean(self, std::nullopt, false, out);
}
PTERON_DEFINE_KERNEL(mean_dims_out, (const Tensor& self, std::optional<Ints> dims, bool keepdim,
                                     Ignored, Tensor& out)) {
  return mean(self, dims, keepdim, out);
}
PTERON_DEFINE_KERNEL(prod_out, (const Tensor& self, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, std::nullopt, false, out));
  fold_slices(slices, self.dtype(), 1, [](auto a, auto b) { return a * b; });
  return Error::Ok;
}
PTERON_DEFINE_KERNEL(prod_dim_out,
                     (const Tensor& self, int64_t dim, bool keepdim, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dim, keepdim, out));
  fold_slices(slices, self.dtype(), 1, [](auto a, auto b) { return a * b; });
  return Error::Ok;
}
PTERON_DEFINE_KERNEL(amax_out,
                     (const Tensor& self, std::optional<Ints> dims, bool keepdim, Tensor& out)) {
  return extreme(self, dims, keepdim, true, out);
}
PTERON_DEFINE_KERNEL(amin_out,
                     (const Tensor& self, std::optional<Ints> dims, bool keepdim, Tensor& out)) {
  return extreme(self, dims, keepdim, false, out);
}
PTERON_DEFINE_KERNEL(max_unary_out, (const Tensor& self, Tensor& out)) {
  return extreme(self, std::nullopt, false, true, out);
}
PTERON_DEFINE_KERNEL(min_unary_out, (const Tensor& self, Tensor& out)) {
  return extreme(self, std::nullopt, false, false, out);
}
PTERON_DEFINE_KERNEL(max_dim_out, (const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                                   Tensor& indices)) {
  return value_and_index(self, dim, keepdim, true, values, indices);
}
PTERON_DEFINE_KERNEL(min_dim_out, (const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                                   Tensor& indices)) {
  return value_and_index(self, dim, keepdim, false, values, indices);
}
PTERON_DEFINE_KERNEL(argmax_out, (KernelContext & context, const Tensor& self,
                                  std::optional<int64_t> dim, bool keepdim, Tensor& out)) {
  return index_of_extreme(context, self, dim, keepdim, true, out);
}
PTERON_DEFINE_KERNEL(argmin_out, (KernelContext & context, const Tensor& self,
                                  std::optional<int64_t> dim, bool keepdim, Tensor& out)) {
  return index_of_extreme(context, self, dim, keepdim, false, out);
}
PTERON_DEFINE_KERNEL(any_all_out, (const Tensor& self, Tensor& out)) {
  return any_or_all(self, Slices::make(self, std::nullopt, false, out), false, out);
}
PTERON_DEFINE_KERNEL(any_out, (const Tensor& self, int64_t dim, bool keepdim, Tensor& out)) {
  return any_or_all(self, Slices::make(self, dim, keepdim, out), false, out);
}
PTERON_DEFINE_KERNEL(any_dims_out,
                     (const Tensor& self, std::optional<Ints> dims, bool keepdim, Tensor& out)) {
  return any_or_all(self, Slices::make(self, dims, keepdim, out), false, out);
}
PTERON_DEFINE_KERNEL(all_all_out, (const Tensor& self, Tensor& out)) {
  return any_or_all(self, Slices::make(self, std::nullopt, false, out), true, out);
}
PTERON_DEFINE_KERNEL(all_out, (const Tensor& self, int64_t dim, bool keepdim, Tensor& out)) {
  return any_or_all(self, Slices::make(self, dim, keepdim, out), true, out);
}
PTERON_DEFINE_KERNEL(all_dims_out,
                     (const Tensor& self, std::optional<Ints> dims, bool keepdim, Tensor& out)) {
  return any_or_all(self, Slices::make(self, dims, keepdim, out), true, out);
}
PTERON_DEFINE_KERNEL(var_out, (const Tensor& self, std::optional<Ints> dims, bool unbiased,
                               bool keepdim, Tensor& out)) {
  return variance(self, dims, unbiased ? 1 : 0, keepdim, out);
}
PTERON_DEFINE_KERNEL(var_correction_out,
                     (const Tensor& self, std::optional<Ints> dims,
                      std::optional<Scalar> correction, bool keepdim, Tensor& out)) {
  return variance(self, dims, correction ? correction->to<double>() : 1, keepdim, out);
}

PTERON_DEFINE_KERNEL(cumsum_out, (const Tensor& self, int64_t dim, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::along(self, dim, out));
  dispatch_number(self.dtype(), [&](auto number) {
    using Number = decltype(number);
    while (slices.next()) {
      const View& from = slices.slice();
      const View& to = slices.result();
      Sum<Number> total{0};
      for (int64_t i = 0; i < slices.numel(); ++i) {
        total += load_one<Number>(from.dtype, from.data + i * from.strides[0]);
        store_one(to.dtype, to.data + i * to.strides[0], total);
      }
    }
  });
  return Error::Ok;
}

}  // namespace pteron::kernels
