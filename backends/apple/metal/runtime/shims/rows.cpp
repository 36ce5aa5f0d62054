// Sorting, selection and scans along a dimension.
#include <algorithm>

#include "pteron/backends/aoti/ops/scan.h"
#include "pteron/backends/aoti/ops/select.h"
#include "pteron/backends/aoti/ops/sort.h"
#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

struct Rows {
  RowParams params{};
  uint64_t count = 1;  // of rows
};

Rows rows_along(const SlimTensor& in, const SlimTensor& out, size_t dim) {
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

}  // namespace

Error sort(const aoti::SortCall& call) {
  Rows rows = rows_along(call.self, call.values, call.dim);
  rows.params.count = call.count;
  rows.params.kind = call.descending;
  if (call.count == 0) return Error::Ok;
  return launch(kRowSource, {{"IN", call.self.dtype()}, {"OUT", call.self.dtype()}}, "sort_rows",
                {memory(call.values), memory(call.indices), memory(call.self), bytes(rows.params)},
                {static_cast<uint64_t>(rows.params.length), rows.count, 1});
}

Error select(const aoti::SelectCall& call) {
  Rows rows = rows_along(call.self, call.self, call.dim);
  rows.params.count = call.k;
  rows.params.kind = static_cast<int64_t>(call.kind);
  return launch(kRowSource, {{"IN", call.self.dtype()}, {"OUT", call.self.dtype()}},
                "select_of_rows",
                {memory(call.values), memory(call.indices), memory(call.self), bytes(rows.params)},
                {static_cast<uint64_t>(rows.params.length), rows.count, 1});
}

Error scan(const aoti::ScanCall& call) {
  Rows rows = rows_along(call.self, call.out, call.dim);
  rows.params.kind = static_cast<int64_t>(call.kind);
  if (rows.params.length == 0) return Error::Ok;
  if (call.indices) {
    return launch(kRowSource, {{"IN", call.self.dtype()}, {"OUT", call.out.dtype()}},
                  "extremes_of_rows",
                  {memory(call.out), memory(call.self), bytes(rows.params), memory(*call.indices)},
                  {rows.count, 1, 1});
  }
  return launch(kRowSource, {{"IN", call.self.dtype()}, {"OUT", call.out.dtype()}}, "scan_rows",
                {memory(call.out), memory(call.self), bytes(rows.params)}, {rows.count, 1, 1});
}

}  // namespace pteron::metal
