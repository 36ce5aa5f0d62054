#include "pteron/backends/aoti/ops/product/product.h"

#include <optional>
#include <string>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {

std::string describe(const ProductCall& call) {
  return (call.c ? call.c->describe() + " + " : "") + call.a.describe() + " @ " +
         call.b.describe() + " -> " + call.out.describe();
}

// What is wrong with the arguments of a matmul; null if nothing is.
const char* expected(const ProductCall& call, size_t rank) {
  const SlimTensor &out = call.out, &a = call.a, &b = call.b;
  const size_t row = rank - 2, col = rank - 1;
  const bool fits = a.dim() == rank && b.dim() == rank && out.dim() == rank &&
                    a.size(col) == b.size(row) && out.size(row) == a.size(row) &&
                    out.size(col) == b.size(col) &&
                    (rank == 2 || (a.size(0) == b.size(0) && out.size(0) == a.size(0)));
  if (!fits) return rank == 2 ? "[m, k] @ [k, n] -> [m, n]" : "[b, m, k] @ [b, k, n] -> [b, m, n]";
  for (size_t d = 0; d < rank && out.numel() > 0; ++d) {
    if (out.stride(d) == 0 && out.size(d) > 1) return "a result that repeats no element";
  }
  if (call.c && !broadcasts_to(*call.c, out.sizes()))
    return "an addend that broadcasts to the result";
  return nullptr;
}

// This is hot for small matmuls: a message is formatted only on failure.
Error check(const ProductCall& call, size_t rank, DType left, DType right, DType result) {
  const char* const shapes = expected(call, rank);
  PTERON_CHECK_OR_RETURN(!shapes, Error::InvalidArgument, "found %s, expected %s",
                         describe(call).c_str(), shapes);
  PTERON_CHECK_OR_RETURN(call.a.dtype() == left && call.b.dtype() == right &&
                             call.out.dtype() == result && (!call.c || call.c->dtype() == result),
                         Error::InvalidType, "found %s, expected %s @ %s -> %s",
                         describe(call).c_str(), slim::name_of(left), slim::name_of(right),
                         slim::name_of(result));
  return Error::Ok;
}

Error multiply(const Kernels& kernels, ProductCall call, size_t rank) {
  const DType dtype = call.out.dtype();
  PTERON_RETURN_IF_ERROR(check(call, rank, dtype, dtype, dtype));
  if (call.beta == 0) call.c = nullptr;
  return kernels.product(call);
}

}  // namespace

Error mm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
             const SlimTensor& mat2) {
  return multiply(kernels, {out, self, mat2}, 2);
}

Error bmm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
              const SlimTensor& mat2) {
  return multiply(kernels, {out, self, mat2}, 3);
}

Error addmm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                const SlimTensor& mat1, const SlimTensor& mat2, double beta, double alpha) {
  return multiply(kernels, {out, mat1, mat2, &self, beta, alpha}, 2);
}

Error baddbmm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                  const SlimTensor& batch1, const SlimTensor& batch2, double beta, double alpha) {
  return multiply(kernels, {out, batch1, batch2, &self, beta, alpha}, 3);
}

Error _int_mm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                  const SlimTensor& mat2) {
  const ProductCall call{out, self, mat2};
  const DType left = self.dtype() == DType::Byte ? DType::Byte : DType::Char;
  PTERON_RETURN_IF_ERROR(check(call, 2, left, DType::Char, DType::Int));
  return kernels.product(call);
}

Error mm_dtype_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                   const SlimTensor& mat2, DType out_dtype) {
  const bool is_short = self.dtype() == DType::Half || self.dtype() == DType::BFloat16;
  PTERON_CHECK_OR_RETURN(out_dtype == self.dtype() || (is_short && out_dtype == DType::Float),
                         Error::InvalidType,
                         "found %s and out_dtype %s, expected the same, or float16 or bfloat16 and "
                         "float32",
                         self.describe().c_str(), slim::name_of(out_dtype));
  const ProductCall call{out, self, mat2};
  PTERON_RETURN_IF_ERROR(check(call, 2, self.dtype(), self.dtype(), out_dtype));
  return kernels.product(call);
}

Error _scaled_mm_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                     const SlimTensor& mat2, const SlimTensor& scale_a, const SlimTensor& scale_b,
                     const SlimTensor* bias, const SlimTensor* scale_result,
                     std::optional<DType> out_dtype, bool use_fast_accum) {
  const ProductCall call{out, self, mat2};
  PTERON_RETURN_IF_ERROR(
      check(call, 2, DType::Float8_e4m3fn, DType::Float8_e4m3fn, out_dtype.value_or(out.dtype())));
  const auto all = [&] {
    return describe(call) + ", scales " + scale_a.describe() + " and " + scale_b.describe() +
           (bias ? ", bias " + bias->describe() : "");
  };
  PTERON_CHECK_OR_RETURN((out.dtype() == DType::Half || out.dtype() == DType::BFloat16 ||
                          out.dtype() == DType::Float) &&
                             scale_a.dtype() == DType::Float && scale_b.dtype() == DType::Float &&
                             (!bias || bias->dtype() == out.dtype()),
                         Error::InvalidType,
                         "found %s, expected a result of float16, bfloat16 or float32, scales of "
                         "float32, a bias like the result",
                         all().c_str());
  const int64_t m = self.size(0), k = self.size(1), n = mat2.size(1);
  const bool is_one = scale_a.numel() == 1 && scale_b.numel() == 1;
  PTERON_CHECK_OR_RETURN(
      (is_one || (scale_a.numel() == m && scale_b.numel() == n)) && scale_a.is_contiguous() &&
          scale_b.is_contiguous() && !scale_result &&
          (!bias || (bias->dim() == 1 && bias->size(0) == n && bias->is_contiguous())),
      Error::InvalidArgument,
      "found %s, expected one scale for each operand, or one for each row and each column, and a "
      "bias of [n]; no scale of the result",
      all().c_str());
  PTERON_CHECK_OR_RETURN(k > 0 && k % 16 == 0 && n % 16 == 0 && self.is_contiguous() &&
                             mat2.stride(0) == 1 && mat2.stride(1) == k && out.is_contiguous(),
                         Error::InvalidArgument,
                         "found %s, expected k and n that are multiples of 16, contiguous rows of "
                         "self and columns of mat2",
                         all().c_str());
  return kernels.scaled_product({out, self, mat2, scale_a, scale_b, bias, use_fast_accum});
}

Error _weight_int8pack_mm(const Kernels& kernels, const SlimTensor& self, const SlimTensor& mat2,
                          const SlimTensor& scales, TensorPtr& out) {
  const DType dtype = self.dtype();
  const auto all = [&] {
    return self.describe() + ", weight " + mat2.describe() + ", scales " + scales.describe();
  };
  PTERON_CHECK_OR_RETURN(self.dim() == 2 && mat2.dim() == 2 && scales.dim() == 1 &&
                             self.size(1) == mat2.size(1) && scales.size(0) == mat2.size(0),
                         Error::InvalidArgument, "found %s, expected [m, k], [n, k], [n]",
                         all().c_str());
  PTERON_CHECK_OR_RETURN(
      (dtype == DType::Float || dtype == DType::Half || dtype == DType::BFloat16) &&
          mat2.dtype() == DType::Char && scales.dtype() == dtype,
      Error::InvalidType,
      "found %s, expected a weight of int8, all else of float32, float16 or bfloat16",
      all().c_str());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x, slim::contiguous_tensor(self));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr weight, slim::contiguous_tensor(mat2));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr factors, slim::contiguous_tensor(scales));
  const int64_t sizes[] = {self.size(0), mat2.size(0)};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, dtype, self.device()));
  return kernels.int8_weight({*out, *x, *weight, *factors});
}

}  // namespace pteron::aoti::ops
