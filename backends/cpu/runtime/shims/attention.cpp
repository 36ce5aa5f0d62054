#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"
#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/kernels/online_softmax.h"
#include "pteron/backends/cpu/runtime/kernels/transpose.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// Attention has two forms: the scores of a query are a row, and the library multiplies; or, for more
// than a few queries, a column, with a query for each lane of a register. The latter needs no key
// or value to be moved, and its maxima and sums are of whole registers.

// Of a tile of scores, which stays in cache.
constexpr int64_t kQueries = 64, kKeys = 256, kKeysOfLanes = 128;
constexpr int64_t kLeastQueriesOfLanes = 14;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One head of one batch.
template <typename T>
Matrix<const T> head_of(const SlimTensor& tensor, int64_t batch, int64_t head) {
  return {tensor.data_as<const T>() + batch * tensor.stride(0) + head * tensor.stride(1),
          tensor.size(2), tensor.size(3), tensor.stride(2), tensor.stride(3)};
}

// As float: the rows in place, or a converted copy in `room`.
template <typename T>
Matrix<const float> as_float(const Matrix<const T>& rows, float* room) {
  if constexpr (std::is_same_v<T, float>) {
    return rows;
  } else {
    for (int64_t i = 0; i < rows.rows; ++i) {
      for (int64_t j = 0; j < rows.cols; ++j) {
        room[i * rows.cols + j] =
            static_cast<float>(rows.data[i * rows.row_stride + j * rows.col_stride]);
      }
    }
    return {room, rows.rows, rows.cols, rows.cols, 1};
  }
}

// Per-thread work memory.
struct Tile {
  Tile(int64_t head_dim, int64_t value_dim, bool converts)
      : query(kQueries * head_dim),
        scores(kQueries * kKeys),
        sums(kQueries * value_dim),
        keys(converts ? kKeys * head_dim : 1),
        values(converts ? kKeys * value_dim : 1) {}

  Scratch<float> query, scores, sums, keys, values;
  float maximum[kQueries], sum[kQueries];
};

template <typename T>
void add_mask(const SlimTensor& mask, int64_t batch, int64_t head, int64_t query, int64_t key,
              int64_t rows, int64_t count, float* scores) {
  const T* data = mask.data_as<const T>() + batch * mask.stride(0) + head * mask.stride(1);
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = data + (query + i) * mask.stride(2) + key * mask.stride(3);
    for (int64_t j = 0; j < count; ++j) {
      scores[i * count + j] += static_cast<float>(row[j * mask.stride(3)]);
    }
  }
}

// out = weighted / sum, for `rows` queries from `first` on of one head; 0 where all keys are masked.
template <typename T>
void write_quotients(const aoti::AttentionCall& call, int64_t batch, int64_t head, int64_t first,
                     int64_t rows, const float* weighted, const float* sum) {
  const int64_t width = call.value.size(3);
  T* out = call.out.data_as<T>() + batch * call.out.stride(0) + head * call.out.stride(1) +
           first * call.out.stride(2);
  for (int64_t i = 0; i < rows; ++i, out += call.out.stride(2), weighted += width) {
    const float factor = sum[i] == 0 ? 0 : 1 / sum[i];
    for (int64_t j = 0; j < width; ++j) out[j] = static_cast<T>(weighted[j] * factor);
  }
}

// Computes `rows` queries from `first` on of one head, over tiles of keys.
template <typename T>
void attend(const aoti::AttentionCall& call, int64_t batch, int64_t head, int64_t first,
            int64_t rows, Tile& tile) {
  const int64_t head_dim = call.query.size(3), value_dim = call.value.size(3);
  const int64_t shared = head / (call.query.size(1) / call.key.size(1));
  const auto all = head_of<T>(call.query, batch, head);
  const auto keys = head_of<T>(call.key, batch, shared),
             values = head_of<T>(call.value, batch, shared);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < head_dim; ++j) {
      tile.query[i * head_dim + j] =
          static_cast<float>(call.scale) *
          static_cast<float>(all.data[(first + i) * all.row_stride + j * all.col_stride]);
    }
    tile.maximum[i] = kMinusInfinity;
    tile.sum[i] = 0;
  }
  std::fill_n(tile.sums.data(), rows * value_dim, 0.0f);
  const Matrix<const float> query{tile.query.data(), rows, head_dim, head_dim, 1};
  const Matrix<float> sums{tile.sums.data(), rows, value_dim, value_dim, 1};
  const int64_t end = call.causal ? std::min(keys.rows, first + rows) : keys.rows;
  for (int64_t key = 0; key < end; key += kKeys) {
    const int64_t count = std::min(kKeys, end - key);
    float* scores = tile.scores.data();
    gemm_serial<float>(
        1, query, as_float<T>(keys.block(key, 0, count, head_dim), tile.keys.data()).transposed(),
        0, {scores, rows, count, count, 1});
    if (call.mask) add_mask<T>(*call.mask, batch, head, first, key, rows, count, scores);
    for (int64_t i = 0; i < rows; ++i) {
      float* row = scores + i * count;
      if (call.causal) {
        const int64_t allowed = std::clamp<int64_t>(first + i + 1 - key, 0, count);
        std::fill(row + allowed, row + count, kMinusInfinity);
      }
      const float maximum = max_of(row, count, tile.maximum[i]);
      if (maximum == kMinusInfinity) {
        // All keys masked, or NaN, which max_of() ignores.
        for (int64_t j = 0; j < count; ++j) row[j] = row[j] == kMinusInfinity ? 0.0f : row[j];
        tile.sum[i] += std::accumulate(row, row + count, 0.0f);
        continue;
      }
      const float factor = std::exp(tile.maximum[i] - maximum);
      if (factor != 1) multiply(tile.sums.data() + i * value_dim, value_dim, factor);
      tile.sum[i] = tile.sum[i] * factor + exponentials(row, count, maximum);
      tile.maximum[i] = maximum;
    }
    gemm_serial<float>(1, {scores, rows, count, count, 1},
                       as_float<T>(values.block(key, 0, count, value_dim), tile.values.data()), 1,
                       sums);
  }
  write_quotients<T>(call, batch, head, first, rows, tile.sums.data(), tile.sum);
}

// The same where lanes are queries.
struct LanesTile {
  LanesTile(const aoti::AttentionCall& call, int64_t width, bool converts)
      : query(call.query.size(3) * width),
        scores(kKeysOfLanes * width),
        sums(call.value.size(3) * width),
        mask(call.mask ? kKeysOfLanes * width : 1),
        rows(width * std::max({call.query.size(3), call.value.size(3), kKeysOfLanes})),
        keys(converts ? kKeysOfLanes * call.query.size(3) : 1),
        values(converts ? kKeysOfLanes * call.value.size(3) : 1) {}

  Scratch<float> query, scores, sums, mask, rows, keys, values;
  float maximum[kMostTileVectors * kMostTileLanes], sum[kMostTileVectors * kMostTileLanes],
      factor[kMostTileVectors * kMostTileLanes];
};

// out = added + a @ b, where b, out and `added` (null: nothing) have `vectors` registers a row.
void multiply_lanes(const TileKernels& kernels, const Matrix<const float>& a, const float* b,
                    int64_t vectors, const float* added, float* out) {
  constexpr int32_t kStart = 0;
  const int64_t width = vectors * kernels.lanes;
  TileVector lanes[kMostTileVectors];
  for (int64_t v = 0; v < vectors; ++v) {
    lanes[v].from = lanes[v].to = v * kernels.lanes;
    lanes[v].count = kernels.lanes;
  }
  ConvolutionTile tile;
  tile.row_stride = a.row_stride;
  tile.row_offsets = tile.column_offsets = &kStart;
  tile.columns = b;
  tile.depth = tile.run = a.cols;
  tile.row_step = a.col_stride;
  tile.column_step = width;
  tile.row_bias = tile.column_bias = nullptr;
  tile.vectors = lanes;
  tile.out_row_stride = tile.residual_row_stride = width;
  tile.out_lane_stride = 1;
  for (int64_t i = 0; i < a.rows;) {
    const int64_t rows = std::min<int64_t>(kernels.most_rows[vectors], a.rows - i);
    tile.rows = a.data + i * a.row_stride;
    tile.out = out + i * width;
    tile.residual = added ? added + i * width : nullptr;
    kernels.get(rows, vectors)(tile);
    i += rows;
  }
}

// Computes `count` queries from `first` on of one head, over tiles of keys.
template <typename T>
void attend_lanes(const aoti::AttentionCall& call, const TileKernels& kernels, int64_t batch,
                  int64_t head, int64_t first, int64_t count, LanesTile& tile) {
  const int64_t head_dim = call.query.size(3), value_dim = call.value.size(3);
  const int64_t shared = head / (call.query.size(1) / call.key.size(1));
  const int64_t vectors = (count + kernels.lanes - 1) / kernels.lanes;
  const int64_t width = vectors * kernels.lanes;
  const auto queries = head_of<T>(call.query, batch, head).block(first, 0, count, head_dim);
  const auto keys = head_of<T>(call.key, batch, shared),
             values = head_of<T>(call.value, batch, shared);
  float* const scores = tile.scores.data();
  transpose(as_float<T>(queries, tile.rows.data()), width, tile.query.data());
  multiply(tile.query.data(), head_dim * width, static_cast<float>(call.scale));
  std::fill_n(tile.sums.data(), value_dim * width, 0.0f);
  std::fill_n(tile.maximum, width, kMinusInfinity);
  std::fill_n(tile.sum, width, 0.0f);
  const int64_t end = call.causal ? std::min(keys.rows, first + count) : keys.rows;
  for (int64_t key = 0; key < end; key += kKeysOfLanes) {
    const int64_t rows = std::min(kKeysOfLanes, end - key);
    const float* added = nullptr;
    if (call.mask) {
      const auto mask = head_of<T>(*call.mask, batch, head).block(first, key, count, rows);
      transpose(as_float<T>(mask, tile.rows.data()), width, tile.mask.data());
      added = tile.mask.data();
    }
    multiply_lanes(kernels, as_float<T>(keys.block(key, 0, rows, head_dim), tile.keys.data()),
                   tile.query.data(), vectors, added, scores);
    for (int64_t i = std::max<int64_t>(first - key + 1, 0); call.causal && i < rows; ++i) {
      std::fill_n(scores + i * width, std::min(width, key + i - first), kMinusInfinity);
    }
    softmax_columns(scores, rows, width, tile.maximum, tile.sum, tile.factor);
    if (key > 0) multiply_columns(tile.sums.data(), value_dim, width, tile.factor);
    const auto part = as_float<T>(values.block(key, 0, rows, value_dim), tile.values.data());
    multiply_lanes(kernels, part.transposed(), scores, vectors, tile.sums.data(), tile.sums.data());
  }
  transpose({tile.sums.data(), value_dim, count, width, 1}, value_dim, tile.rows.data());
  write_quotients<T>(call, batch, head, first, count, tile.rows.data(), tile.sum);
}

template <typename T>
Error run(const aoti::AttentionCall& call) {
  const int64_t heads = call.query.size(1), queries = call.query.size(2);
  constexpr bool kConverts = !std::is_same_v<T, float>;
  const TileKernels* kernels = queries < kLeastQueriesOfLanes ? nullptr : tile_kernels();
  const int64_t most = kernels ? kMostTileVectors * kernels->lanes : kQueries;
  const int64_t tiles = (queries + most - 1) / most;
  const int64_t unit = kernels ? kernels->lanes : kQueries;
  const int64_t units = (queries + unit - 1) / unit;
  const int64_t least = 1 << 18;  // minimum multiplications per thread
  // None without keys or where heads have no elements.
  const int64_t work = std::min(most, queries) * call.key.size(2) * call.query.size(3);
  parallel_for(call.query.size(0) * heads * tiles, least / std::max<int64_t>(work, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 const auto each = [&](auto& tile, const auto& compute) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t i = task % tiles, first = units * i / tiles * unit;
                     const int64_t last = std::min(units * (i + 1) / tiles * unit, queries);
                     compute(task / tiles / heads, task / tiles % heads, first, last - first, tile);
                   }
                 };
                 if (!kernels) {
                   Tile tile(call.query.size(3), call.value.size(3), kConverts);
                   each(tile, [&](auto&&... at) { attend<T>(call, at...); });
                 } else {
                   LanesTile tile(call, most, kConverts);
                   each(tile, [&](auto&&... at) { attend_lanes<T>(call, *kernels, at...); });
                 }
               });
  return Error::Ok;
}

}  // namespace

Error attention(const aoti::AttentionCall& call) {
  switch (call.out.dtype()) {
    case DType::Half:
      return run<slim::Half>(call);
    case DType::BFloat16:
      return run<slim::BFloat16>(call);
    default:
      return run<float>(call);
  }
}

}  // namespace pteron::cpu
