// The register tile of direct convolutions: a block of outputs that accumulates in registers.
//
//   const TileKernels* kernels = tile_kernels();            // null: none for this machine
//   kernels->get(/*rows=*/8, /*vectors=*/3)(tile);
#pragma once

#include <cstdint>
#include <limits>

namespace pteron::cpu {

inline constexpr int kMostTileLanes = 16;
inline constexpr int kMostTileRows = 8;
inline constexpr int kMostTileVectors = 3;

// One vector of a row: its active lanes and their destination.
struct TileVector {
  int64_t from;                   // start of the vector in the columns
  int64_t to;                     // offset of its first output
  int32_t count;                  // number of active lanes, at least one
  uint8_t lanes[kMostTileLanes];  // lane lanes[i] is the i-th output
};

// The sum of row r, vector v, lane l,
//
//   bias + sum over k < depth of
//     rows[r * row_stride + row_at(k)] * columns[vectors[v].from + l + column_at(k)],
//
// plus the residual, clamped to [`least`, `most`], is stored to out[r * out_row_stride +
// vectors[v].to + i * out_lane_stride] where l is lanes[i]. Terms are in runs of `run`; row_at(k + j)
// is row_offsets[k] + j * row_step and column_at(k + j) is column_offsets[k] + j * column_step, where
// k is the first of a run. Columns are read for all lanes. NaN propagates. All offsets are in floats.
struct ConvolutionTile {
  const float* rows;
  int64_t row_stride;
  const float* columns;
  int64_t depth;  // a multiple of `run`
  int64_t run;
  int64_t row_step;
  int64_t column_step;
  const int32_t* row_offsets;
  const int32_t* column_offsets;
  const float* row_bias;     // one per row; null: none
  const float* column_bias;  // read at `from` of a vector; null: none
  const TileVector* vectors;
  float* out;
  int64_t out_row_stride;
  int64_t out_lane_stride;
  // residual[r * residual_row_stride + vectors[v].to + i], where out_lane_stride is 1 and lanes are
  // in order; null: none.
  const float* residual = nullptr;
  int64_t residual_row_stride = 0;
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};

using TileKernel = void (*)(const ConvolutionTile& tile);

// A block of 4 x 4 products of a Winograd convolution (convolution_winograd.cpp), and the 2 x 2
// outputs that are sums of them. Null: outside of the image, or no residual.
struct WinogradOutputs {
  const float* products;  // of channel c and the i-th product: products[i * stride + c]
  int64_t stride;
  int64_t channels;
  float* out[4];
  const float* residual[4];
  float least, most;
};

// A row of a depthwise convolution (convolution_depthwise.cpp): outputs [begin, end) of `channels`
// channels, which are the bias, the terms inside the image and the residual, clamped. Distances are
// in floats.
struct DepthwiseRow {
  const float* in;      // column 0 of the line that the first of the kernel's rows reads
  int64_t line, pixel;  // between lines that the kernel's rows read, and between pixels
  int64_t width;        // pixels of a line
  const float* bias;
  const float* weight;  // [kernel_rows, kernel_columns], `weight_stride` apart; whole registers
  int64_t weight_stride;
  int64_t kernel_rows, kernel_columns;
  int64_t stride, dilation, padding;  // of columns
  int64_t begin, end;
  float* out;  // of output 0
  int64_t out_pixel;
  const float* residual;  // like out, or null
  int64_t residual_pixel;
  int64_t channels;
  // Channels of the output in a row that read the same one of the input, and how many of these come
  // before the first one.
  int64_t repeats, phase;
  float least, most;
};

// The kernels of one instruction set.
struct TileKernels {
  int lanes;                                      // floats per register
  int most_rows[kMostTileVectors + 1];            // maximum rows by number of vectors
  const TileKernel (*kernels)[kMostTileVectors];  // [rows - 1][vectors - 1]
  void (*depthwise)(const DepthwiseRow& row);
  // Of 4 x 4 pixels of `channels` channels, the factors to[i * stride + c] of the products. Writes
  // whole registers.
  void (*winograd_in)(const float* const* pixels, int64_t channels, float* to, int64_t stride);
  // False if a sum is not finite; then the outputs have to be computed in another way.
  bool (*winograd_out)(const WinogradOutputs& outputs);

  TileKernel get(int64_t rows, int64_t vectors) const { return kernels[rows - 1][vectors - 1]; }
};

// For the widest registers of this machine; null if it has neither.
const TileKernels* tile_kernels();

// By instruction set, wherever it can be run.
const TileKernels& tile_kernels_avx2();
const TileKernels& tile_kernels_avx512();

}  // namespace pteron::cpu
