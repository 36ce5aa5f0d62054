// Sorting, selection, scans and transforms along a dimension.
#include <algorithm>

#include "pteron/backends/aoti/ops/fft/fft.h"
#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/aoti/ops/select/select.h"
#include "pteron/backends/aoti/ops/sort/sort.h"
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

Error fft(const aoti::FftCall& call) {
  const auto is_complex = [](const SlimTensor& tensor) {
    return tensor.dtype() == DType::ComplexFloat;
  };
  if (!is_complex(call.in) && call.in.dtype() != DType::Float) return aoti::no_kernel_for(call.in);
  if (call.out.numel() == 0) return Error::Ok;
  TensorPtr copy;
  if (call.in.data() == call.out.data()) {
    PTERON_ASSIGN_OR_RETURN(copy, slim::clone_tensor(call.in));
  }
  const SlimTensor& in = copy ? *copy : call.in;
  const Rows rows = rows_along(in, call.out, call.dim);
  const float turn = 6.283185307179586f;
  const TransformParams transform{call.length, is_complex(in) ? 2 : 1, is_complex(call.out) ? 2 : 1,
                                  call.forward ? -turn : turn, static_cast<float>(call.scale)};
  return launch(kRowSource, {{"IN", DType::Float}, {"OUT", DType::Float}}, "transform_rows",
                {memory(call.out), memory(in), bytes(rows.params), bytes(transform)},
                {static_cast<uint64_t>(rows.params.count), rows.count, 1});
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
