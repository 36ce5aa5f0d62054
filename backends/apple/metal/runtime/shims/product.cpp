#include "pteron/backends/aoti/ops/product/product.h"

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

struct Strides {
  int64_t batch, row, column;
};

// Strides of a matrix or a batch of matrices, broadcast to `like`.
Strides strides_of(const SlimTensor& tensor, const SlimTensor& like) {
  int64_t strides[3] = {0, 0, 0};
  for (size_t d = 0; d < tensor.dim(); ++d) {
    const size_t at = 3 - tensor.dim() + d;
    const bool repeats = tensor.size(d) == 1 && like.size(like.dim() - tensor.dim() + d) != 1;
    strides[at] = repeats ? 0 : tensor.stride(d);
  }
  return {strides[0], strides[1], strides[2]};
}

}  // namespace

Error product(const aoti::ProductCall& call) {
  const SlimTensor &out = call.out, &a = call.a, &b = call.b;
  if (!element_of(out.dtype())) return aoti::no_kernel_for(out);
  const SlimTensor& c = call.c ? *call.c : out;
  const size_t rank = out.dim();
  const int64_t batch = rank == 3 ? out.size(0) : 1;
  const Strides x = strides_of(a, a), y = strides_of(b, b), z = strides_of(c, out),
                to = strides_of(out, out);
  const MatrixParams params{out.size(rank - 2),
                            out.size(rank - 1),
                            a.size(rank - 1),
                            x.batch,
                            x.row,
                            x.column,
                            y.batch,
                            y.row,
                            y.column,
                            z.batch,
                            z.row,
                            z.column,
                            to.batch,
                            to.row,
                            to.column,
                            static_cast<float>(call.alpha),
                            static_cast<float>(call.c ? call.beta : 0)};
  if (call.c && slim::may_overlap(out, c) && c.data() != out.data()) {
    PTERON_ASSIGN_OR_RETURN(const TensorPtr copy, slim::clone_tensor(c));
    return product({out, a, b, copy.get(), call.beta, call.alpha});
  }
  return launch(kProductSource, {{"OUT", out.dtype()}, {"A", a.dtype()}, {"B", b.dtype()}},
                "product", {memory(out), memory(a), memory(b), memory(c), bytes(params)},
                {static_cast<uint64_t>(params.columns + 3) / 4,
                 static_cast<uint64_t>(params.rows + 3) / 4, static_cast<uint64_t>(batch)});
}

Error int8_weight(const aoti::Int8WeightCall& call) {
  const int64_t depth = call.x.size(1), columns = call.weight.size(0);
  return launch(kProductSource,
                {{"OUT", call.out.dtype()}, {"A", call.x.dtype()}, {"B", call.weight.dtype()}},
                "int8_weight",
                {memory(call.out), memory(call.x), memory(call.weight), memory(call.scales),
                 bytes(depth), bytes(columns)},
                {static_cast<uint64_t>(columns), static_cast<uint64_t>(call.x.size(0)), 1});
}

}  // namespace pteron::metal
