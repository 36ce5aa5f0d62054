#include "pteron/backends/apple/metal/runtime/shims/rows.h"

#include "pteron/backends/aoti/ops/results.h"

namespace pteron::metal {

Rows rows_along(const slim::SlimTensor& in, const slim::SlimTensor& out, size_t dim) {
  Rows rows;
  RowParams& params = rows.params;
  params.dims = static_cast<int64_t>(in.dim());
  params.length = aoti::size_along(in, dim);
  params.count = aoti::size_along(out, dim);
  for (size_t d = 0; d < in.dim(); ++d) {
    params.sizes[d] = d == dim ? 1 : in.size(d);
    params.in[d] = in.stride(d);
    params.out[d] = out.stride(d);
    rows.count *= static_cast<uint64_t>(params.sizes[d]);
  }
  params.in_step = in.dim() > 0 ? in.stride(dim) : 0;
  params.out_step = out.dim() > 0 ? out.stride(dim) : 0;
  return rows;
}

const char kRowText[] = PTERON_TEXT(PTERON_ROW_PARAMS) R"MTL(
struct Row {
  long in, out;
};
inline Row row_of(constant RowParams& p, long number) {
  Row row = {0, 0};
  for (long d = p.dims; d-- > 0; number /= p.sizes[d]) {
    row.in += number % p.sizes[d] * p.in[d];
    row.out += number % p.sizes[d] * p.out[d];
  }
  return row;
}

// NaN sorts last.
template <typename T>
inline bool is_less(T a, T b) { return a < b || (b != b && a == a); }
)MTL";

}  // namespace pteron::metal
