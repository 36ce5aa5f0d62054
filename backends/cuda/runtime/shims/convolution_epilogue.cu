// The epilogue that a convolution plan does not fuse, in one pass over the output.
#include "pteron/backends/cuda/runtime/shims/convolution.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

// `count` vectors; `inner` vectors share a channel, or with kAcross a vector holds neighbouring
// channels.
template <typename T, int kCount, bool kAcross, typename Index>
__global__ void finish_kernel(T* out, const T* bias, const T* residual, bool relu, Index count,
                              Index channels, Index inner) {
  using S = typename Wide<T>::type;
  using P = Pack<T, kCount>;
  for_each_item(count, [&](int64_t index) {
    const Index i = static_cast<Index>(index);
    P result = reinterpret_cast<P*>(out)[i];
    P added{};
    if (residual) added = reinterpret_cast<const P*>(residual)[i];
    const Index channel = kAcross ? i * kCount % channels : i / inner % channels;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      S value = static_cast<S>(result.items[k]);
      if (residual) value += static_cast<S>(added.items[k]);
      if (bias) value += static_cast<S>(bias[kAcross ? channel + k : channel]);
      if (relu && value < S{0}) value = S{0};
      result.items[k] = static_cast<T>(value);
    }
    reinterpret_cast<P*>(out)[i] = result;
  });
}

template <typename T, int kCount, bool kAcross>
void launch(const Convolution& conv, const ConvolutionOperands& operands, int64_t positions,
            cudaStream_t stream) {
  const int64_t count = conv.batch * conv.out_channels * positions / kCount;
  const int64_t inner = positions / (kAcross ? 1 : kCount);
  T* const out = static_cast<T*>(operands.out);
  const T* const bias = static_cast<const T*>(operands.bias);
  const T* const residual = static_cast<const T*>(operands.residual);
  if (count * kCount <= UINT32_MAX) {
    finish_kernel<T, kCount, kAcross, uint32_t><<<item_blocks(count), kItemThreads, 0, stream>>>(
        out, bias, residual, conv.relu, static_cast<uint32_t>(count),
        static_cast<uint32_t>(conv.out_channels), static_cast<uint32_t>(inner));
  } else {
    finish_kernel<T, kCount, kAcross, int64_t><<<item_blocks(count), kItemThreads, 0, stream>>>(
        out, bias, residual, conv.relu, count, conv.out_channels, inner);
  }
}

template <typename T>
Error finish(const Convolution& conv, const ConvolutionOperands& operands, cudaStream_t stream) {
  constexpr int kCount = 16 / sizeof(T);
  int64_t positions = 1;
  for (int i = 0; i < conv.dims; ++i) positions *= conv.out_sizes[i];
  if (conv.channels_last && conv.out_channels % kCount == 0) {
    launch<T, kCount, true>(conv, operands, positions, stream);
  } else if (conv.channels_last) {
    launch<T, 1, true>(conv, operands, positions, stream);
  } else if (positions % kCount == 0) {
    launch<T, kCount, false>(conv, operands, positions, stream);
  } else {
    launch<T, 1, false>(conv, operands, positions, stream);
  }
  return launched("finishing a convolution");
}

}  // namespace

Error finish_convolution(const Convolution& conv, const ConvolutionOperands& operands,
                         cudaStream_t stream) {
  if (!operands.bias && !operands.residual && !conv.relu) return Error::Ok;
  return with_floating(conv.dtype, "convolution",
                       [&](auto zero) { return finish<decltype(zero)>(conv, operands, stream); });
}

}  // namespace pteron::cuda
