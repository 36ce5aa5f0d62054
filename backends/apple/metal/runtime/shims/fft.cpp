#include "pteron/backends/aoti/ops/fft/fft.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"
#include "pteron/backends/apple/metal/runtime/shims/rows.h"

namespace pteron::metal {
namespace {

// In addition to RowParams, whose length is that of the stored rows. parts: 2 for complex dtypes.
// turn: 2 pi, with the sign of the direction.
#define PTERON_TRANSFORM_PARAMS      \
  struct TransformParams {           \
    int64_t length, in_parts, parts; \
    float turn, scale;               \
  };
PTERON_TRANSFORM_PARAMS

const char kSource[] = PTERON_TEXT(PTERON_TRANSFORM_PARAMS) R"MTL(
// A thread computes one coefficient of one row. Short complex rows are one-sided: the rest is
// conjugate.
kernel void transform_rows(device float* out, device const float* in, constant RowParams& p,
                           constant TransformParams& t,
                           uint2 position [[thread_position_in_grid]]) {
  const Row row = row_of(p, position.y);
  const long mine = position.x;
  float real = 0, imaginary = 0;
  for (long i = 0; i < t.length; ++i) {
    const bool is_there = i < p.length;
    const long at = (row.in + (is_there ? i : t.length - i) * p.in_step) * t.in_parts;
    const bool is_real = t.in_parts == 1 || (t.parts == 1 && (i == 0 || 2 * i == t.length));
    const float x = in[at], y = is_real ? 0 : is_there ? in[at + 1] : -in[at + 1];
    const float angle = t.turn * (float(mine * i % t.length) / float(t.length));
    const float c = metal::precise::cos(angle), s = metal::precise::sin(angle);
    real += x * c - y * s;
    imaginary += x * s + y * c;
  }
  const long to = (row.out + mine * p.out_step) * t.parts;
  out[to] = real * t.scale;
  // For real input the first and the middle coefficient are real, also with NaN.
  const bool is_real = t.in_parts == 1 && (mine == 0 || 2 * mine == t.length);
  if (t.parts == 2) out[to + 1] = is_real ? 0 : imaginary * t.scale;
}
)MTL";

}  // namespace

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
  return launch(kSource, {{"IN", DType::Float}, {"OUT", DType::Float}}, "transform_rows",
                {memory(call.out), memory(in), bytes(rows.params), bytes(transform)},
                {static_cast<uint64_t>(rows.params.count), rows.count, 1});
}

}  // namespace pteron::metal
