// Convolution by im2col and GEMM, in slices of samples. `columns` holds for each sample a row-major
// matrix of (channels of a group * kernel) x positions.
#include <algorithm>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/convolution.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"
#include "pteron/backends/cuda/runtime/strided_copy.h"

namespace pteron::cuda {
namespace {

// Memory limit of im2col, or as much as one sample needs.
constexpr int64_t kMaxColumnsNbytes = int64_t{256} << 20;

// A tensor [batch, channels, ...] in memory; strides in elements.
struct ImageStrides {
  int64_t batch, channel, space[kMaxSpatialDims];
};

ImageStrides packed_image(const Convolution& conv, int64_t channels, const int64_t* sizes) {
  ImageStrides strides{};
  int64_t stride = 1;
  if (conv.channels_last) {
    strides.channel = 1;
    stride = channels;
  }
  for (int i = conv.dims; i-- > 0;) {
    strides.space[i] = stride;
    stride *= sizes[i];
  }
  if (!conv.channels_last) {
    strides.channel = stride;
    stride *= channels;
  }
  strides.batch = stride;
  return strides;
}

// The geometry of one unfolding: `image` is the side with elements, positions the other one.
struct Geometry {
  int64_t image[kMaxSpatialDims], positions[kMaxSpatialDims], kernel[kMaxSpatialDims],
      stride[kMaxSpatialDims], padding[kMaxSpatialDims], dilation[kMaxSpatialDims];
  int64_t channels, first_channel, num_positions, num_taps;
  ImageStrides strides;
};

Geometry make_geometry(const Convolution& c, const ImageStrides& strides, int64_t first_channel,
                       int64_t channels) {
  Geometry g{};
  g.channels = channels;
  g.first_channel = first_channel;
  g.strides = strides;
  g.num_positions = g.num_taps = 1;
  for (int i = 0; i < kMaxSpatialDims; ++i) {
    const bool used = i < c.dims;
    g.image[i] = !used ? 1 : c.transposed ? c.out_sizes[i] : c.in_sizes[i];
    g.positions[i] = !used ? 1 : c.transposed ? c.in_sizes[i] : c.out_sizes[i];
    g.kernel[i] = used ? c.kernel[i] : 1;
    g.stride[i] = used ? c.stride[i] : 1;
    g.padding[i] = used ? c.padding[i] : 0;
    g.dilation[i] = used ? c.dilation[i] : 1;
    g.num_positions *= g.positions[i];
    g.num_taps *= g.kernel[i];
  }
  return g;
}

template <typename T>
__global__ void unfold_kernel(const T* image, T* columns, int64_t count,
                              __grid_constant__ const Geometry g) {
  for_each_item(count, [&](int64_t i) {
    int64_t rest = i;
    int64_t at[kMaxSpatialDims], tap[kMaxSpatialDims];
    for (int d = kMaxSpatialDims; d-- > 0;) {
      at[d] = rest % g.positions[d];
      rest /= g.positions[d];
    }
    for (int d = kMaxSpatialDims; d-- > 0;) {
      tap[d] = rest % g.kernel[d];
      rest /= g.kernel[d];
    }
    const int64_t channel = rest % g.channels, sample = rest / g.channels;
    int64_t offset = sample * g.strides.batch + (g.first_channel + channel) * g.strides.channel;
    bool inside = true;
    for (int d = 0; d < kMaxSpatialDims; ++d) {
      const int64_t position = at[d] * g.stride[d] - g.padding[d] + tap[d] * g.dilation[d];
      inside = inside && position >= 0 && position < g.image[d];
      offset += position * g.strides.space[d];
    }
    columns[i] = inside ? image[offset] : T(0.0f);
  });
}

template <typename T>
__global__ void fold_kernel(const T* columns, T* image, int64_t count,
                            __grid_constant__ const Geometry g) {
  using S = typename Wide<T>::type;
  for_each_item(count, [&](int64_t i) {
    int64_t rest = i, coordinates[kMaxSpatialDims];
    for (int d = kMaxSpatialDims; d-- > 0;) {
      coordinates[d] = rest % g.image[d];
      rest /= g.image[d];
    }
    const int64_t channel = rest % g.channels, sample = rest / g.channels;
    const T* matrix = columns + (sample * g.channels + channel) * g.num_taps * g.num_positions;
    S sum = 0;
    for (int64_t tap = 0; tap < g.num_taps; ++tap) {
      int64_t tap_rest = tap, position = 0, scale = 1;
      bool hit = true;
      for (int d = kMaxSpatialDims; d-- > 0;) {
        const int64_t k = tap_rest % g.kernel[d];
        tap_rest /= g.kernel[d];
        const int64_t distance = coordinates[d] + g.padding[d] - k * g.dilation[d];
        const int64_t at = distance / g.stride[d];
        hit = hit && distance >= 0 && distance % g.stride[d] == 0 && at < g.positions[d];
        position += at * scale;
        scale *= g.positions[d];
      }
      if (hit) sum += static_cast<S>(matrix[tap * g.num_positions + position]);
    }
    int64_t offset = sample * g.strides.batch + (g.first_channel + channel) * g.strides.channel;
    for (int d = 0; d < kMaxSpatialDims; ++d) offset += coordinates[d] * g.strides.space[d];
    image[offset] = static_cast<T>(sum);
  });
}

// columns[n, (c, k), p] = image[n, first_channel + c, p * stride - padding + k * dilation], or 0
// outside. `image` has conv.in_sizes, positions are conv.out_sizes (of a transposed convolution the
// other way round).
Error unfold(const Convolution& conv, const void* image, const ImageStrides& strides,
             int64_t first_channel, int64_t channels, int64_t batch, void* columns,
             cudaStream_t stream) {
  const Geometry g = make_geometry(conv, strides, first_channel, channels);
  const int64_t count = batch * channels * g.num_taps * g.num_positions;
  return with_floating(conv.dtype, "convolution", [&](auto zero) {
    using T = decltype(zero);
    return launch_items(count, stream, "unfolding an image", unfold_kernel<T>,
                        static_cast<const T*>(image), static_cast<T*>(columns), count, g);
  });
}

// The transpose: every element of `image` is the sum of those of `columns` that unfold() would read
// from it; summed in float32 at least.
Error fold(const Convolution& conv, const void* columns, void* image, const ImageStrides& strides,
           int64_t first_channel, int64_t channels, int64_t batch, cudaStream_t stream) {
  const Geometry g = make_geometry(conv, strides, first_channel, channels);
  const int64_t count = batch * channels * g.image[0] * g.image[1] * g.image[2];
  return with_floating(conv.dtype, "convolution", [&](auto zero) {
    using T = decltype(zero);
    return launch_items(count, stream, "folding an image", fold_kernel<T>,
                        static_cast<const T*>(columns), static_cast<T*>(image), count, g);
  });
}

int64_t volume(const int64_t* values, int dims) {
  int64_t result = 1;
  for (int i = 0; i < dims; ++i) result *= values[i];
  return result;
}

const void* at(const void* data, int64_t element, size_t item) {
  return static_cast<const char*>(data) + element * static_cast<int64_t>(item);
}
void* at(void* data, int64_t element, size_t item) {
  return static_cast<char*>(data) + element * static_cast<int64_t>(item);
}

// The matrix (channels of group `group`, positions) of each sample of a packed image.
GemmMatrix image_matrix(const Convolution& c, const void* image, int64_t channels,
                        int64_t positions, int64_t group, size_t item) {
  const int64_t first = group * (channels / c.groups);
  GemmMatrix matrix;
  matrix.batch_stride = channels * positions;
  if (c.channels_last) {
    matrix.data = at(image, first, item);
    matrix.layout = {channels, true};
  } else {
    matrix.data = at(image, first * positions, item);
    matrix.layout = {positions, false};
  }
  return matrix;
}

// Weights with kernel positions after channels, the order of im2col rows.
Error weight_with_taps_last(const Convolution& c, const void* weight, int64_t taps, size_t item,
                            int device, cudaStream_t stream, slim::StorageRef* storage) {
  const int64_t outer = c.transposed ? c.in_channels : c.out_channels;
  const int64_t inner = (c.transposed ? c.out_channels : c.in_channels) / c.groups;
  PTERON_ASSIGN_OR_RETURN(
      *storage, allocate_scratch(static_cast<size_t>(outer * inner * taps) * item, device));
  StridedCopy copy;
  copy.target = (*storage)->data;
  copy.source = weight;
  copy.item_nbytes = item;
  copy.add_dim(outer, inner * taps, inner * taps);
  copy.add_dim(inner, taps, 1);
  copy.add_dim(taps, 1, inner);
  return strided_copy(copy, stream);
}

}  // namespace

Error convolve_unfolded(const Convolution& conv, const ConvolutionOperands& operands, int device,
                        cudaStream_t stream) {
  const Convolution& c = conv;
  const void* const input = operands.input;
  const void* weight = operands.weight;
  void* const out = operands.out;
  const size_t item = element_size(c.dtype);
  const int64_t taps = volume(c.kernel, c.dims);
  const int64_t in_positions = volume(c.in_sizes, c.dims);
  const int64_t out_positions = volume(c.out_sizes, c.dims);
  // The side with im2col (or col2im) has `channels` per group; the other side's positions are the
  // columns.
  const int64_t folded_channels = (c.transposed ? c.out_channels : c.in_channels) / c.groups;
  const int64_t positions = c.transposed ? in_positions : out_positions;
  const int64_t rows = folded_channels * taps;

  slim::StorageRef reordered;
  if (c.channels_last && taps > 1) {
    PTERON_RETURN_IF_ERROR(
        weight_with_taps_last(c, weight, taps, item, device, stream, &reordered));
    weight = reordered->data;
  }
  const int64_t sample_nbytes = std::max<int64_t>(rows * positions * static_cast<int64_t>(item), 1);
  const int64_t slice = std::clamp<int64_t>(kMaxColumnsNbytes / sample_nbytes, 1, c.batch);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef columns,
                          allocate_scratch(static_cast<size_t>(slice * sample_nbytes), device));
  const ImageStrides in_strides = packed_image(c, c.in_channels, c.in_sizes);
  const ImageStrides out_strides = packed_image(c, c.out_channels, c.out_sizes);
  const int64_t other_channels = (c.transposed ? c.in_channels : c.out_channels) / c.groups;

  for (int64_t first = 0; first < c.batch; first += slice) {
    const int64_t samples = std::min(slice, c.batch - first);
    const void* in_slice = at(input, first * in_strides.batch, item);
    void* out_slice = at(out, first * out_strides.batch, item);
    for (int64_t group = 0; group < c.groups; ++group) {
      const GemmMatrix column_matrix{columns->data, {positions, false}, rows * positions};
      const GemmMatrix weight_matrix{
          at(weight, group * other_channels * rows, item), {rows, c.transposed}, 0};
      GemmProblem product;
      product.dtype = c.dtype;
      product.batch = samples;
      product.n = positions;
      product.allow_tf32 = c.allow_tf32;
      product.a = weight_matrix;
      if (c.transposed) {
        product.m = rows;
        product.k = other_channels;
        product.b = image_matrix(c, in_slice, c.in_channels, in_positions, group, item);
        product.out = column_matrix;
        PTERON_RETURN_IF_ERROR(gemm(product, device, stream));
        PTERON_RETURN_IF_ERROR(fold(c, columns->data, out_slice, out_strides,
                                    group * folded_channels, folded_channels, samples, stream));
      } else {
        PTERON_RETURN_IF_ERROR(unfold(c, in_slice, in_strides, group * folded_channels,
                                      folded_channels, samples, columns->data, stream));
        product.m = other_channels;
        product.k = rows;
        product.b = column_matrix;
        product.out = image_matrix(c, out_slice, c.out_channels, out_positions, group, item);
        PTERON_RETURN_IF_ERROR(gemm(product, device, stream));
      }
    }
  }
  return Error::Ok;
}

}  // namespace pteron::cuda
