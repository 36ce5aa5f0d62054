#include "pteron/backends/aoti/ops/quantized_mma/quantized_mma.h"

#include <array>
#include <optional>
#include <string>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

namespace {

std::optional<QuantizedFormat> format_of(DType dtype) {
  switch (dtype) {
    case DType::Byte:
      return QuantizedFormat::kInt4;
    case DType::Char:
      return QuantizedFormat::kInt8;
    case DType::Float8_e4m3fn:
      return QuantizedFormat::kFloat8;
    default:
      return std::nullopt;
  }
}

bool is_group_size(int64_t size, int64_t k) {
  return size == k || (size >= 32 && (size & (size - 1)) == 0);
}

Error multiply(const Kernels& kernels, const SlimTensor& x, const SlimTensor& weight,
               const SlimTensor& scales, const SlimTensor* zero_points, int64_t columns,
               const SlimTensor* norm, double epsilon, const SlimTensor* residual, bool gated,
               TensorPtr& out) {
  const auto all = [&] {
    return x.describe() + ", weight " + weight.describe() + ", scales " + scales.describe() +
           (zero_points ? ", zero points " + zero_points->describe() : "");
  };
  const DType dtype = x.dtype();
  const std::optional<QuantizedFormat> format = format_of(weight.dtype());
  PTERON_CHECK_OR_RETURN(
      (dtype == DType::Half || dtype == DType::BFloat16) && format && scales.dtype() == dtype &&
          (!zero_points || zero_points->dtype() == DType::Float),
      Error::InvalidType,
      "found %s, expected float16 or bfloat16, a weight of uint8, int8 or float8_e4m3fn, scales "
      "like x, and zero points of float32",
      all().c_str());
  const int64_t chunk_nbytes = kMmaStrip * kMmaChunk / (*format == QuantizedFormat::kInt4 ? 2 : 1);
  const bool fits =
      x.dim() == 2 && weight.dim() == 3 && scales.dim() == 2 && weight.size(1) > 0 &&
      x.size(1) == weight.size(1) * kMmaChunk && weight.size(2) == chunk_nbytes &&
      columns > (weight.size(0) - 1) * kMmaStrip && columns <= weight.size(0) * kMmaStrip &&
      scales.size(0) > 0 && scales.size(1) == weight.size(0) * kMmaStrip &&
      (!zero_points || (zero_points->dim() == 2 && zero_points->size(0) == scales.size(0) &&
                        zero_points->size(1) == scales.size(1)));
  PTERON_CHECK_OR_RETURN(fits && weight.is_contiguous() && scales.is_contiguous() &&
                             (!zero_points || zero_points->is_contiguous()),
                         Error::InvalidArgument,
                         "found %s, %lld columns; expected [m, k], a weight packed for k rows and "
                         "these columns, and contiguous scales and zero points of its groups",
                         all().c_str(), static_cast<long long>(columns));
  const int64_t group_size = x.size(1) / scales.size(0);
  PTERON_CHECK_OR_RETURN(
      x.size(1) % scales.size(0) == 0 && is_group_size(group_size, x.size(1)) &&
          (*format != QuantizedFormat::kFloat8 || (scales.size(0) == 1 && !zero_points)),
      Error::InvalidArgument,
      "found %s, expected groups of a power of two rows from 32, or one group; of float8 one group "
      "without zero points",
      all().c_str());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr rows, slim::contiguous_tensor(x));
  const int64_t sizes[] = {x.size(0), gated ? columns / 2 : columns};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, dtype, x.device()));
  return kernels.quantized_mma({*out, *rows, weight, &scales, zero_points, *format, group_size,
                                norm, epsilon, residual, gated});
}

// Of one row, with weights that are not quantized.
Error multiply(const Kernels& kernels, const SlimTensor& x,
               const std::array<const SlimTensor*, 3>& weights, int64_t columns,
               const SlimTensor* norm, double epsilon, const SlimTensor* residual, bool gated,
               TensorPtr& out) {
  std::string all = x.describe();
  int64_t found = 0;
  bool fit = x.size(1) % kMmaChunk == 0 && (!gated || (weights[1] && !weights[2]));
  for (const SlimTensor* weight : weights) {
    if (weight == nullptr) continue;
    all += ", weight " + weight->describe();
    fit &= weight->dim() == 2 && weight->dtype() == x.dtype() && weight->is_contiguous() &&
           weight->size(0) % (gated ? kMmaStrip / 2 : kMmaStrip) == 0 && weight->size(0) > 0 &&
           weight->size(1) == x.size(1) && (!gated || weight->size(0) == weights[0]->size(0));
    if (fit) found += weight->size(0);
  }
  PTERON_CHECK_OR_RETURN(
      (x.dtype() == DType::Half || x.dtype() == DType::BFloat16) && fit && found == columns,
      Error::InvalidArgument,
      "found %s, %lld columns%s; expected float16 or bfloat16, [1, k], k a multiple of 64, and "
      "contiguous weights, [n, k] with n a multiple of 16, of these columns",
      all.c_str(), static_cast<long long>(columns), gated ? " of two matrices" : "");
  PTERON_ASSIGN_OR_RETURN(const TensorPtr row, slim::contiguous_tensor(x));
  const int64_t sizes[] = {1, gated ? columns / 2 : columns};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, x.dtype(), x.device()));
  return kernels.quantized_mma({*out,
                                *row,
                                *weights[0],
                                nullptr,
                                nullptr,
                                QuantizedFormat::kNone,
                                x.size(1),
                                norm,
                                epsilon,
                                residual,
                                gated,
                                {weights[1], weights[2]}});
}

}  // namespace

Error quantized_mma(const Kernels& kernels, const SlimTensor& x, const SlimTensor& weight,
                    const SlimTensor& scales, const SlimTensor* zero_points, int64_t columns,
                    TensorPtr& out) {
  return multiply(kernels, x, weight, scales, zero_points, columns, nullptr, 0, nullptr, false,
                  out);
}

Error fused_mma(const Kernels& kernels, const SlimTensor& x, const SlimTensor& weight,
                const SlimTensor* second, const SlimTensor* third, const SlimTensor* scales,
                const SlimTensor* zero_points, int64_t columns, const SlimTensor* norm,
                double epsilon, const SlimTensor* residual, bool gated, TensorPtr& out) {
  const auto is_row = [&](const SlimTensor& row, int64_t size) {
    return row.dtype() == x.dtype() && static_cast<int64_t>(row.numel()) == size;
  };
  PTERON_CHECK_OR_RETURN(
      x.dim() == 2 && x.size(0) == 1 && x.size(1) <= kMmaMostNormalized &&
          (!norm || (is_row(*norm, x.size(1)) && norm->is_contiguous())) &&
          (!residual || is_row(*residual, columns)) &&
          !(gated && (residual || columns % kMmaStrip)),
      Error::InvalidArgument,
      "found %s, %lld columns%s, norm %s, residual %s; expected one row of at most %lld elements, "
      "a norm and a residual of its dtype like it and like the result, or columns in strips of two "
      "matrices",
      x.describe().c_str(), static_cast<long long>(columns), gated ? " of two matrices" : "",
      norm ? norm->describe().c_str() : "null", residual ? residual->describe().c_str() : "null",
      static_cast<long long>(kMmaMostNormalized));
  TensorPtr added;
  if (residual) {
    PTERON_ASSIGN_OR_RETURN(added, slim::contiguous_tensor(*residual));
  }
  if (scales == nullptr) {
    return multiply(kernels, x, {&weight, second, third}, columns, norm, epsilon, added.get(),
                    gated, out);
  }
  return multiply(kernels, x, weight, *scales, zero_points, columns, norm, epsilon, added.get(),
                  gated, out);
}

}  // namespace pteron::aoti::ops
