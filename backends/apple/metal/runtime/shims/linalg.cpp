#include "pteron/backends/aoti/ops/linalg/linalg.h"

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error linalg(const aoti::LinalgCall& call) {
  PTERON_CHECK_OR_RETURN(call.dtype == DType::Float, Error::InvalidType,
                         "%s: Metal has no such element; lower the model in another precision, or "
                         "leave the operator to another backend",
                         slim::name_of(call.dtype));
  LinalgParams params{static_cast<int64_t>(call.kind),
                      call.a.rows,
                      call.a.cols,
                      call.b.rows,
                      call.b.cols,
                      call.num_reflectors,
                      call.upper,
                      call.right,
                      call.transposed,
                      call.unit_diagonal,
                      0};
  for (int i = 0; i < 3; ++i) params.wanted |= call.determinant[i] ? int64_t{1} << i : 0;
  // Arguments that a kind does not use are arbitrary device memory.
  const auto of = [&](const void* memory) { return Argument{memory ? memory : call.a.data, 0}; };
  return launch(
      kLinalgSource, {}, "of_matrix",
      {of(call.a.data), of(call.b.data), of(call.pivots), of(call.info), of(call.tau),
       of(call.determinant[0]), of(call.determinant[1]), of(call.determinant[2]), bytes(params)},
      {1, 1, 1});
}

}  // namespace pteron::metal
