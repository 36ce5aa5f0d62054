// Our kernels as Metal source text. Names in capitals are macros set at compilation
// (shims/launch.h); the parameter structs here are identical in both languages.
#pragma once

#include <cstdint>

namespace pteron::metal {

inline constexpr int64_t kMostDims = 16;

struct AttentionParams {
  int64_t keys, items, value_items, chunks;
  int64_t shared;  // query heads per key head
  int64_t causal, masked;
  int64_t query[4], key[4], value[4], mask[4], out[4];  // strides, in elements
  float scale;
};
extern const char kAttentionSource[];

struct ArithmeticParams {
  int64_t dims, kind;  // ArithmeticCall::Kind; -1: only the dtype changes
  int64_t scale;       // alpha for integer dtypes
  int64_t sizes[kMostDims], a[kMostDims], b[kMostDims], out[kMostDims];
  int64_t parts, a_parts, b_parts;  // 2 for complex dtypes
  float alpha;
};
extern const char kArithmeticSource[];

// Depth, height, width.
struct ConvolutionParams {
  int64_t in_channels, out_channels;  // of a group
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t in_strides[5], weight_strides[5], out_strides[5];
  int64_t has_bias, transposed;
};
extern const char kConvolutionSource[];

struct DistanceParams {
  int64_t rows, columns, length, each_once;
  float p;
};
extern const char kDistanceSource[];

struct BagParams {
  int64_t rows, columns, indices, offsets, padding;
  int64_t mode, weighted;
};
extern const char kEmbeddingSource[];

struct HistogramParams {
  int64_t count, parts, weighted;
  float low, high;
};
extern const char kHistogramSource[];

// Strides of several tensors, also of offsets into x.
struct IndexParams {
  int64_t dims, count;
  int64_t sizes[kMostDims], x[kMostDims], other[kMostDims], offsets[kMostDims];
  int64_t kind;  // IndexCall::Kind
  int64_t include_self;
};
// Adds the contribution of one index tensor to the offsets.
struct OffsetParams {
  int64_t dims, count;
  int64_t sizes[kMostDims], numbers[kMostDims];
  int64_t size, stride, is_first;
};
extern const char kIndexSource[];

struct LinalgParams {
  int64_t kind;  // LinalgCall::Kind
  int64_t rows, columns, b_rows, b_columns, reflectors;
  int64_t upper, right, transposed, unit;
  int64_t wanted;  // a bit per output of LinalgCall::determinant
};
extern const char kLinalgSource[];

struct MatrixParams {
  int64_t rows, columns, depth;
  int64_t a_batch, a_row, a_column;  // strides, in elements
  int64_t b_batch, b_row, b_column;
  int64_t c_batch, c_row, c_column;
  int64_t out_batch, out_row, out_column;
  float alpha, beta;
};
extern const char kProductSource[];

struct RunParams {
  int64_t count, width, ends, has_order;
};
extern const char kRunSource[];

struct SearchParams {
  int64_t length, per_row, right, has_order;
};
extern const char kSearchSource[];

}  // namespace pteron::metal
