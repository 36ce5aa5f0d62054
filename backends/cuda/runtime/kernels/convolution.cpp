#include "pteron/backends/cuda/runtime/kernels/convolution.h"

namespace pteron::cuda {

Error convolve(const Convolution& conv, const void* input, const void* weight, void* out,
               int device, cudaStream_t stream, ConvolutionLibrary library) {
  if (conv.batch == 0 || conv.out_channels == 0) return Error::Ok;
  if (library != ConvolutionLibrary::kUnfold) {
    Error error = convolve_with_cudnn(conv, input, weight, out, device, stream);
    const bool can_do_without = error == Error::NotFound || error == Error::NotSupported;
    if (!can_do_without || library == ConvolutionLibrary::kCudnn) return error;
  }
  return convolve_unfolded(conv, input, weight, out, device, stream);
}

}  // namespace pteron::cuda
