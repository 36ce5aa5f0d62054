#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/kernels/softmax_rows.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

constexpr int64_t kQueries = 64, kKeys = 256;  // of a tile of scores, which stays in cache
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

// Computes the queries from `first` on of one head, over tiles of keys.
template <typename T>
void attend(const aoti::AttentionCall& call, int64_t batch, int64_t head, int64_t first,
            Tile& tile) {
  const int64_t head_dim = call.query.size(3), value_dim = call.value.size(3);
  const int64_t shared = head / (call.query.size(1) / call.key.size(1));
  const int64_t rows = std::min(kQueries, call.query.size(2) - first);
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
  T* out = call.out.data_as<T>() + batch * call.out.stride(0) + head * call.out.stride(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float factor = tile.sum[i] == 0 ? 0 : 1 / tile.sum[i];
    for (int64_t j = 0; j < value_dim; ++j) {
      out[(first + i) * call.out.stride(2) + j] =
          static_cast<T>(tile.sums[i * value_dim + j] * factor);
    }
  }
}

template <typename T>
Error run(const aoti::AttentionCall& call) {
  const int64_t heads = call.query.size(1);
  const int64_t tiles = (call.query.size(2) + kQueries - 1) / kQueries;
  const int64_t least = 1 << 18;  // minimum multiplications per thread
  // None without keys or where heads have no elements.
  const int64_t work =
      std::min(kQueries, call.query.size(2)) * call.key.size(2) * call.query.size(3);
  parallel_for(call.query.size(0) * heads * tiles, least / std::max<int64_t>(work, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 Tile tile(call.query.size(3), call.value.size(3), !std::is_same_v<T, float>);
                 for (int64_t task = begin; task < end; ++task) {
                   attend<T>(call, task / tiles / heads, task / tiles % heads,
                             task % tiles * kQueries, tile);
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
