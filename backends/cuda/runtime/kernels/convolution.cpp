#include "pteron/backends/cuda/runtime/kernels/convolution.h"

namespace pteron::cuda {

Error convolve(const Convolution& conv, const ConvolutionOperands& operands, int device,
               cudaStream_t stream, ConvolutionLibrary library) {
  if (conv.batch == 0 || conv.out_channels == 0) return Error::Ok;
  if (library != ConvolutionLibrary::kUnfold) {
    Error error = convolve_with_cudnn(conv, operands, device, stream);
    const bool can_do_without = error == Error::NotFound || error == Error::NotSupported;
    if (!can_do_without || library == ConvolutionLibrary::kCudnn) return error;
  }
  PTERON_RETURN_IF_ERROR(convolve_unfolded(conv, operands, device, stream));
  return finish_convolution(conv, operands, stream);
}

}  // namespace pteron::cuda
