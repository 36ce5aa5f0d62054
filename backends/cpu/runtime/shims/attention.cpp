#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

#include "pteron/backends/cpu/runtime/kernels/amx.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"
#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/kernels/online_softmax.h"
#include "pteron/backends/cpu/runtime/kernels/transpose.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// Attention has three forms. The scores of a query are a row, and the library multiplies, or AMX,
// where it is; or, for more than a few queries, a column, with a query for each lane of a register.
// The latter needs no key or value to be moved, and its maxima and sums are of whole registers.

// Of a tile of scores, which stays in cache.
constexpr int64_t kQueries = 128, kKeys = 256, kKeysOfLanes = 128;
constexpr int64_t kLeastQueriesOfLanes = 14;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One head of one batch.
template <typename T>
Matrix<const T> head_of(const SlimTensor& tensor, int64_t batch, int64_t head) {
  return {tensor.data_as<const T>() + batch * tensor.stride(0) + head * tensor.stride(1),
          tensor.size(2), tensor.size(3), tensor.stride(2), tensor.stride(3)};
}

template <typename T>
const uint16_t* bits_of(const T* data) {
  return reinterpret_cast<const uint16_t*>(data);
}

// Converts a row of `count` to float.
template <typename T>
void widen(const T* from, int64_t stride, int64_t count, float* to) {
  if constexpr (std::is_same_v<T, slim::BFloat16>) {
    if (stride == 1) return from_bfloat16(bits_of(from), count, to);
  }
  for (int64_t j = 0; j < count; ++j) to[j] = static_cast<float>(from[j * stride]);
}

// As float: the rows in place, or a converted copy in `room`.
template <typename T>
Matrix<const float> as_float(const Matrix<const T>& rows, float* room) {
  if constexpr (std::is_same_v<T, float>) {
    return rows;
  } else {
    for (int64_t i = 0; i < rows.rows; ++i) {
      widen(rows.data + i * rows.row_stride, rows.col_stride, rows.cols, room + i * rows.cols);
    }
    return {room, rows.rows, rows.cols, rows.cols, 1};
  }
}

// A tile's queries: `count` of those of `heads` heads from `head` on, which share their keys, from
// the `first` on; queries of a head are side by side.
struct Queries {
  int64_t batch, head, first, count;

  // Calls compute(head, first, rows, at) for each head: `rows` queries from `first` on are the
  // tile's from `at` on.
  template <typename F>
  void for_each_head(const aoti::AttentionCall& call, const F& compute) const {
    const int64_t of_head = call.query.size(2);
    for (int64_t at = 0; at < count;) {
      const int64_t query = (first + at) % of_head, rows = std::min(of_head - query, count - at);
      compute(head + (first + at) / of_head, query, rows, at);
      at += rows;
    }
  }

  // Keys from there on are not attended to.
  int64_t end(const aoti::AttentionCall& call) const {
    int64_t last = 0;
    for_each_head(call, [&](int64_t, int64_t query, int64_t rows, int64_t) {
      last = std::max(last, query + rows);
    });
    return call.causal ? std::min(call.key.size(2), last) : call.key.size(2);
  }

  template <typename T>
  Matrix<const T> keys(const aoti::AttentionCall& call, const SlimTensor& tensor) const {
    return head_of<T>(tensor, batch, head / (call.query.size(1) / call.key.size(1)));
  }
};

// What a mask does in a tile of scores.
enum class Masked { kNothing, kSome, kAll };

// All elements are found to be alike by comparing each with the next.
template <typename T>
Masked masked(const aoti::AttentionCall& call, const Queries& queries, int64_t key, int64_t count) {
  if (!call.mask) return Masked::kNothing;
  if (call.mask->stride(3) != 1) return Masked::kSome;
  bool alike = true;
  T first{};
  queries.for_each_head(call, [&](int64_t head, int64_t query, int64_t rows, int64_t at) {
    const auto mask = head_of<T>(*call.mask, queries.batch, head).block(query, key, rows, count);
    if (at == 0) first = *mask.data;
    for (int64_t i = 0; alike && i < rows; ++i) {
      const T* row = mask.data + i * mask.row_stride;
      alike = std::memcmp(row, &first, sizeof first) == 0 &&
              std::memcmp(row, row + 1, (count - 1) * sizeof first) == 0;
    }
  });
  const float value = alike ? static_cast<float>(first) : 1.0f;
  return value == 0 ? Masked::kNothing : value == kMinusInfinity ? Masked::kAll : Masked::kSome;
}

// Per-thread work memory. For AMX operands are bfloat16, rounded up to whole registers.
struct Tile {
  Tile(const aoti::AttentionCall& call, int64_t most_rows, bool converts, bool on_amx)
      : amx(on_amx),
        query(most_rows * call.query.size(3)),
        scores(most_rows * kKeys),
        sums(most_rows * call.value.size(3)),
        keys(converts || amx ? kKeys * call.query.size(3) : 1),
        values(converts || amx ? kKeys * call.value.size(3) : 1),
        weights(amx ? most_rows * kKeys : 1),
        mask(call.mask ? kKeys : 1) {}

  bool amx;
  Scratch<float> query, scores, sums, keys, values;
  Scratch<uint16_t> weights;
  Scratch<float> mask;
  float maximum[kQueries], sum[kQueries];
};

template <typename T>
void add_mask(const aoti::AttentionCall& call, const Queries& queries, int64_t key, int64_t count,
              int64_t stride, Tile& tile) {
  queries.for_each_head(call, [&](int64_t head, int64_t query, int64_t rows, int64_t at) {
    const auto mask = head_of<T>(*call.mask, queries.batch, head).block(query, key, rows, count);
    for (int64_t i = 0; i < rows; ++i) {
      widen(mask.data + i * mask.row_stride, mask.col_stride, count, tile.mask.data());
      add(tile.scores.data() + (at + i) * stride, count, tile.mask.data());
    }
  });
}

// out = weighted / sum, for the rows of `weighted`; 0 where all keys are masked.
template <typename T>
void write_quotients(const aoti::AttentionCall& call, const Queries& queries, const float* weighted,
                     const float* sum) {
  const int64_t width = call.value.size(3);
  queries.for_each_head(call, [&](int64_t head, int64_t query, int64_t rows, int64_t at) {
    T* out = call.out.data_as<T>() + queries.batch * call.out.stride(0) +
             head * call.out.stride(1) + query * call.out.stride(2);
    for (int64_t i = at; i < at + rows; ++i, out += call.out.stride(2)) {
      const float factor = sum[i] == 0 ? 0 : 1 / sum[i];
      for (int64_t j = 0; j < width; ++j) out[j] = static_cast<T>(weighted[i * width + j] * factor);
    }
  });
}

// Whether bfloat16 operands can be as AMX reads them. Pairs of a key's elements are at multiples of 4
// bytes.
bool fits_amx(const aoti::AttentionCall& call) {
  const SlimTensor& key = call.key;
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(key.data_as<const slim::BFloat16>()) % 4 == 0 &&
      key.stride(0) % 2 == 0 && key.stride(1) % 2 == 0 && key.stride(2) % 2 == 0 &&
      key.stride(3) == 1;
  return is_aligned && call.query.size(3) > 0 && call.query.size(3) % 2 == 0 &&
         call.query.stride(3) == 1 && call.value.size(3) % kAmxRows == 0 &&
         call.value.stride(3) == 1 && amx_is_usable();
}

// scores[rows, stride] = query @ keys^T; pairs of a key's elements are moved as floats are.
void scores_on_amx(const Matrix<const slim::BFloat16>& keys, int64_t rows, int64_t stride,
                   Tile& tile) {
  const Matrix<const float> pairs{reinterpret_cast<const float*>(keys.data), keys.rows,
                                  keys.cols / 2, keys.row_stride / 2, 1};
  transpose(pairs, stride, tile.keys.data());
  multiply_pairs_on_amx({rows, stride, keys.cols, bits_of(tile.query.data()), keys.cols,
                         bits_of(tile.keys.data()), stride, tile.scores.data(), stride, false});
}

// sums += scores @ values, with scores rounded to bfloat16.
void weigh_on_amx(const Matrix<const slim::BFloat16>& values, int64_t rows, int64_t stride,
                  Tile& tile) {
  const int64_t width = values.cols, even = (values.rows + 1) / 2 * 2;
  auto* const pairs = reinterpret_cast<uint32_t*>(tile.values.data());
  for (int64_t i = 0; i < values.rows; i += 2) {
    const uint16_t* row = bits_of(values.data + i * values.row_stride);
    interleave(row, i + 1 < values.rows ? row + values.row_stride : nullptr, width,
               pairs + i / 2 * width);
  }
  for (int64_t i = 0; i < rows; ++i) {
    uint16_t* weights = tile.weights.data() + i * stride;
    to_bfloat16(tile.scores.data() + i * stride, values.rows, weights);
    if (even > values.rows) weights[values.rows] = 0;
  }
  multiply_pairs_on_amx({rows, width, even, tile.weights.data(), stride, bits_of(pairs), width,
                         tile.sums.data(), width, true});
}

// Computes a tile of queries over tiles of keys.
template <typename T>
void attend(const aoti::AttentionCall& call, const Queries& queries, Tile& tile) {
  constexpr bool kMayBeOnAmx = std::is_same_v<T, slim::BFloat16>;
  const int64_t rows = queries.count;
  const int64_t head_dim = call.query.size(3), value_dim = call.value.size(3);
  const auto keys = queries.keys<T>(call, call.key), values = queries.keys<T>(call, call.value);
  const auto scale = static_cast<float>(call.scale);
  queries.for_each_head(call, [&](int64_t head, int64_t query, int64_t count, int64_t at) {
    const auto all = head_of<T>(call.query, queries.batch, head);
    for (int64_t i = 0; i < count; ++i) {
      const T* row = all.data + (query + i) * all.row_stride;
      float* const to = tile.query.data() + (at + i) * head_dim;
      if (tile.amx) {
        std::memcpy(reinterpret_cast<T*>(tile.query.data()) + (at + i) * head_dim, row,
                    head_dim * sizeof(T));
      } else {
        widen(row, all.col_stride, head_dim, to);
        multiply(to, head_dim, scale);
      }
    }
  });
  std::fill_n(tile.maximum, rows, kMinusInfinity);
  std::fill_n(tile.sum, rows, 0.0f);
  std::fill_n(tile.sums.data(), rows * value_dim, 0.0f);
  const Matrix<const float> query{tile.query.data(), rows, head_dim, head_dim, 1};
  const Matrix<float> sums{tile.sums.data(), rows, value_dim, value_dim, 1};
  const int64_t end = queries.end(call);
  for (int64_t key = 0; key < end; key += kKeys) {
    const int64_t count = std::min(kKeys, end - key);
    const Masked mask = masked<T>(call, queries, key, count);
    if (mask == Masked::kAll) continue;
    const int64_t stride = tile.amx ? (count + kAmxRows - 1) / kAmxRows * kAmxRows : count;
    float* const scores = tile.scores.data();
    const auto some_keys = keys.block(key, 0, count, head_dim);
    const auto some_values = values.block(key, 0, count, value_dim);
    if constexpr (kMayBeOnAmx) {
      if (tile.amx) {
        scores_on_amx(some_keys, rows, stride, tile);
        multiply(scores, rows * stride, scale);
      }
    }
    if (!tile.amx) {
      gemm_serial<float>(1, query, as_float<T>(some_keys, tile.keys.data()).transposed(), 0,
                         {scores, rows, count, count, 1});
    }
    if (mask == Masked::kSome) add_mask<T>(call, queries, key, count, stride, tile);
    if (call.causal) {
      queries.for_each_head(call, [&](int64_t, int64_t first, int64_t some, int64_t at) {
        for (int64_t i = 0; i < some; ++i) {
          float* row = scores + (at + i) * stride;
          const int64_t allowed = std::clamp<int64_t>(first + i + 1 - key, 0, count);
          std::fill(row + allowed, row + count, kMinusInfinity);
        }
      });
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* row = scores + i * stride;
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
    if constexpr (kMayBeOnAmx) {
      if (tile.amx) weigh_on_amx(some_values, rows, stride, tile);
    }
    if (!tile.amx) {
      gemm_serial<float>(1, {scores, rows, count, count, 1},
                         as_float<T>(some_values, tile.values.data()), 1, sums);
    }
  }
  write_quotients<T>(call, queries, tile.sums.data(), tile.sum);
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

// Rows of `tensor` from column `from` on, as columns of lanes: out[cols, width].
template <typename T>
void transpose_rows(const aoti::AttentionCall& call, const Queries& queries,
                    const SlimTensor& tensor, int64_t from, int64_t cols, int64_t width,
                    float* rows, float* out) {
  queries.for_each_head(call, [&](int64_t head, int64_t query, int64_t count, int64_t at) {
    const auto part = head_of<T>(tensor, queries.batch, head).block(query, from, count, cols);
    for (int64_t i = 0; i < count; ++i) {
      widen(part.data + i * part.row_stride, part.col_stride, cols, rows + (at + i) * cols);
    }
  });
  transpose({rows, queries.count, cols, cols, 1}, width, out);
}

// Computes a tile of queries over tiles of keys.
template <typename T>
void attend_lanes(const aoti::AttentionCall& call, const TileKernels& kernels,
                  const Queries& queries, LanesTile& tile) {
  const int64_t head_dim = call.query.size(3), value_dim = call.value.size(3);
  const int64_t vectors = (queries.count + kernels.lanes - 1) / kernels.lanes;
  const int64_t width = vectors * kernels.lanes;
  const auto keys = queries.keys<T>(call, call.key), values = queries.keys<T>(call, call.value);
  float* const scores = tile.scores.data();
  transpose_rows<T>(call, queries, call.query, 0, head_dim, width, tile.rows.data(),
                    tile.query.data());
  multiply(tile.query.data(), head_dim * width, static_cast<float>(call.scale));
  std::fill_n(tile.sums.data(), value_dim * width, 0.0f);
  std::fill_n(tile.maximum, width, kMinusInfinity);
  std::fill_n(tile.sum, width, 0.0f);
  const int64_t end = queries.end(call);
  for (int64_t key = 0; key < end; key += kKeysOfLanes) {
    const int64_t rows = std::min(kKeysOfLanes, end - key);
    const Masked mask = masked<T>(call, queries, key, rows);
    if (mask == Masked::kAll) continue;
    const bool adds = mask == Masked::kSome;
    if (adds) {
      transpose_rows<T>(call, queries, *call.mask, key, rows, width, tile.rows.data(),
                        tile.mask.data());
    }
    multiply_lanes(kernels, as_float<T>(keys.block(key, 0, rows, head_dim), tile.keys.data()),
                   tile.query.data(), vectors, adds ? tile.mask.data() : nullptr, scores);
    if (call.causal) {
      queries.for_each_head(call, [&](int64_t, int64_t first, int64_t count, int64_t at) {
        for (int64_t i = std::max<int64_t>(first - key + 1, 0); i < rows; ++i) {
          std::fill_n(scores + i * width + at, std::min(count, key + i - first), kMinusInfinity);
        }
      });
    }
    softmax_columns(scores, rows, width, tile.maximum, tile.sum, tile.factor);
    if (key > 0) multiply_columns(tile.sums.data(), value_dim, width, tile.factor);
    const auto part = as_float<T>(values.block(key, 0, rows, value_dim), tile.values.data());
    multiply_lanes(kernels, part.transposed(), scores, vectors, tile.sums.data(), tile.sums.data());
  }
  transpose({tile.sums.data(), value_dim, queries.count, width, 1}, value_dim, tile.rows.data());
  write_quotients<T>(call, queries, tile.rows.data(), tile.sum);
}

template <typename T>
Error run(const aoti::AttentionCall& call) {
  constexpr bool kConverts = !std::is_same_v<T, float>;
  const int64_t batches = call.query.size(0), heads = call.query.size(1);
  // Heads that share their keys are computed together if there is work for all threads then.
  const int64_t sharing = heads / call.key.size(1);
  const int64_t together = batches * call.key.size(1) >= max_threads() ? sharing : 1;
  const int64_t queries = together * call.query.size(2);
  const bool on_amx = std::is_same_v<T, slim::BFloat16> && fits_amx(call);
  const TileKernels* kernels = on_amx || queries < kLeastQueriesOfLanes ? nullptr : tile_kernels();
  const int64_t most = kernels ? kMostTileVectors * kernels->lanes : kQueries;
  const int64_t tiles = (queries + most - 1) / most;
  const int64_t unit = kernels ? kernels->lanes : on_amx ? kAmxRows : kQueries;
  const int64_t units = (queries + unit - 1) / unit;
  const int64_t least = 1 << 18;  // minimum multiplications per thread
  // None without keys or where heads have no elements.
  const int64_t work = std::min(most, queries) * call.key.size(2) * call.query.size(3);
  const int64_t groups = heads / together;
  parallel_for(batches * groups * tiles, least / std::max<int64_t>(work, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 const auto each = [&](const auto& compute) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t i = task % tiles, first = units * i / tiles * unit;
                     const int64_t last = std::min(units * (i + 1) / tiles * unit, queries);
                     compute(Queries{task / tiles / groups, task / tiles % groups * together, first,
                                     last - first});
                   }
                 };
                 if (!kernels) {
                   Tile tile(call, std::min(most, queries), kConverts, on_amx);
                   each([&](const Queries& some) { attend<T>(call, some, tile); });
                 } else {
                   LanesTile tile(call, most, kConverts);
                   each([&](const Queries& some) { attend_lanes<T>(call, *kernels, some, tile); });
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
