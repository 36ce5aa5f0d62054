#include "pteron/backends/aoti/ops/fft/fft.h"

#include "pteron/backends/cuda/runtime/kernels/fft.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error fft(const aoti::FftCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, rows_along(call.in, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult out, RowResult::make(call.out, call.dim));
  FourierRows rows;
  rows.length = call.length;
  rows.in_length = call.in.size(call.dim);
  rows.out_length = call.out.size(call.dim);
  rows.count = call.in.numel() / rows.in_length;
  rows.real_in = !slim::is_complex(call.in.dtype());
  rows.real_out = !slim::is_complex(call.out.dtype());
  rows.forward = call.forward;
  rows.scale = call.scale;
  const DType dtype = call.in.dtype();
  const bool is_float = dtype == DType::Float || dtype == DType::ComplexFloat;
  PTERON_RETURN_IF_ERROR(transform_rows(rows, is_float ? ScalarType::Float : ScalarType::Double,
                                        in->data(), out.data(), scope.device(), scope.stream()));
  return out.finish();
}

}  // namespace pteron::cuda
