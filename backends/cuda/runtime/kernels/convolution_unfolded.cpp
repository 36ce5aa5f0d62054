// Convolution by im2col and GEMM, in slices of samples.
#include <algorithm>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/kernels/strided_copy.h"
#include "pteron/backends/cuda/runtime/kernels/unfold.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

// Memory limit of im2col, or as much as one sample needs.
constexpr int64_t kMaxColumnsNbytes = int64_t{256} << 20;

int64_t product(const int64_t* values, int dims) {
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
  const int64_t taps = product(c.kernel, c.dims);
  const int64_t in_positions = product(c.in_sizes, c.dims);
  const int64_t out_positions = product(c.out_sizes, c.dims);
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
