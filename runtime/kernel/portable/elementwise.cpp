#include "pteron/runtime/kernel/portable/elementwise.h"

#include <algorithm>
#include <array>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/shapes.h"

namespace pteron::kernels {
namespace {

// The dtype to compute in, or why there is none.
Result<ScalarType> compute_dtype(Domain domain, ScalarType common) {
  if (domain == Domain::Floating && !is_floating(common)) return ScalarType::Float;
  PTERON_CHECK_OR_RETURN(domain != Domain::Integral || !is_floating(common), Error::InvalidType,
                         "not defined for %s, expected integers or bool", name_of(common));
  return common;
}

// The numbers as the common dtype has them, where that is narrower than the type computed in: 0.1
// is another number in half precision, and -1 another one in uint8.
template <typename T>
const T* rounded(ScalarType common, ScalarType from, const T* numbers, int64_t count, T* buffer) {
  if (common == from || element_size(common) >= sizeof(T)) return numbers;
  std::array<std::byte, kBlock * sizeof(T)> stored;
  const auto step = static_cast<int64_t>(element_size(common));
  store_block(common, stored.data(), step, count, numbers);
  return load_block(common, stored.data(), step, count, buffer);
}

template <typename T>
Error run_unary(UnaryLoop<T> loop, const View& a, T p, T q, const View& out) {
  T a_buffer[kBlock];
  T out_buffer[kBlock];
  for (Runs<2> runs({&out, &a}); runs.next();) {
    for (int64_t i = 0; i < runs.count(); i += kBlock) {
      const int64_t count = std::min(kBlock, runs.count() - i);
      const T* numbers =
          load_block(a.dtype, runs.data(1) + i * runs.step(1), runs.step(1), count, a_buffer);
      loop(numbers, out_buffer, count, p, q);
      store_block(out.dtype, runs.data(0) + i * runs.step(0), runs.step(0), count, out_buffer);
    }
  }
  return Error::Ok;
}

template <typename T>
Error run_binary(const BinaryOp& op, BinaryLoop<T> loop, ScalarType common, const View& a,
                 const View& b, T p, const View& out) {
  T a_buffer[kBlock];
  T b_buffer[kBlock];
  T out_buffer[kBlock];
  for (Runs<3> runs({&out, &a, &b}); runs.next();) {
    for (int64_t i = 0; i < runs.count(); i += kBlock) {
      const int64_t count = std::min(kBlock, runs.count() - i);
      const T* a_block =
          load_block(a.dtype, runs.data(1) + i * runs.step(1), runs.step(1), count, a_buffer);
      const T* b_block =
          load_block(b.dtype, runs.data(2) + i * runs.step(2), runs.step(2), count, b_buffer);
      a_block = rounded(common, a.dtype, a_block, count, a_buffer);
      b_block = rounded(common, b.dtype, b_block, count, b_buffer);
      if constexpr (std::is_integral_v<T>) {
        PTERON_CHECK_OR_RETURN(
            !op.refuses_zero || std::find(b_block, b_block + count, T{0}) == b_block + count,
            Error::InvalidArgument, "integer division by zero");
      }
      loop(a_block, b_block, out_buffer, count, p);
      store_block(out.dtype, runs.data(0) + i * runs.step(0), runs.step(0), count, out_buffer);
    }
  }
  return Error::Ok;
}

Error not_defined(ScalarType dtype) {
  return make_error(Error::InvalidType, "not defined for %s", name_of(dtype));
}

}  // namespace

Error apply_unary(const UnaryOp& op, const Tensor& a, const Scalar& p, const Scalar& q,
                  Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, a.sizes()));
  PTERON_ASSIGN_OR_RETURN(const ScalarType dtype, compute_dtype(op.domain, a.dtype()));
  return dispatch_number(dtype, [&](auto number) -> Error {
    using T = decltype(number);
    const UnaryLoop<T> loop = op.loops.template get<T>();
    if (!loop) return not_defined(dtype);
    const auto in_dtype = [dtype](T value) {
      T buffer;
      return *rounded(dtype, std::is_floating_point_v<T> ? dtype : ScalarType::Long, &value, 1,
                      &buffer);
    };
    return run_unary<T>(loop, view_of(a), in_dtype(p.to<T>()), in_dtype(q.to<T>()), view_of(out));
  });
}

Error apply_binary(const BinaryOp& op, const Operand& a, const Operand& b, const Scalar& p,
                   Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({a.view().shape(), b.view().shape()}));
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const ScalarType common = result_type({&a, &b});
  PTERON_ASSIGN_OR_RETURN(const ScalarType dtype, compute_dtype(op.domain, common));
  const View a_view = a.view().expanded(shape.span());
  const View b_view = b.view().expanded(shape.span());
  return dispatch_number(dtype, [&](auto number) -> Error {
    using T = decltype(number);
    const BinaryLoop<T> loop = op.loops.template get<T>();
    if (!loop) return not_defined(dtype);
    return run_binary<T>(op, loop, dtype, a_view, b_view, p.to<T>(), view_of(out));
  });
}

Error apply_where(const Tensor& condition, const Operand& a, const Operand& b, Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape,
                          broadcast({condition.sizes(), a.view().shape(), b.view().shape()}));
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const View out_view = view_of(out);
  const View condition_view = view_of(condition).expanded(shape.span());
  const View a_view = a.view().expanded(shape.span());
  const View b_view = b.view().expanded(shape.span());
  dispatch_number(result_type({&a, &b}), [&](auto number) {
    using T = decltype(number);
    int64_t condition_buffer[kBlock];
    T a_buffer[kBlock];
    T b_buffer[kBlock];
    T out_buffer[kBlock];
    for (Runs<4> runs({&out_view, &condition_view, &a_view, &b_view}); runs.next();) {
      for (int64_t i = 0; i < runs.count(); i += kBlock) {
        const int64_t count = std::min(kBlock, runs.count() - i);
        const auto load = [&](size_t view, const View& from, auto* buffer) {
          return load_block(from.dtype, runs.data(view) + i * runs.step(view), runs.step(view),
                            count, buffer);
        };
        const int64_t* chosen = load(1, condition_view, condition_buffer);
        const T* a_block = load(2, a_view, a_buffer);
        const T* b_block = load(3, b_view, b_buffer);
        for (int64_t j = 0; j < count; ++j) out_buffer[j] = chosen[j] ? a_block[j] : b_block[j];
        store_block(out_view.dtype, runs.data(0) + i * runs.step(0), runs.step(0), count,
                    out_buffer);
      }
    }
  });
  return Error::Ok;
}

}  // namespace pteron::kernels
