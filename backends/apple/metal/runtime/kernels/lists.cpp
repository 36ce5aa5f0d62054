#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// searchsorted: a thread per value.
const char kSearchSource[] = R"MTL(
struct SearchParams {
  long length, per_row, right, has_order;
};

kernel void search_rows(device OUT* out, device const T* sequence, device const long* order,
                        device const T* values, constant SearchParams& p,
                        uint i [[thread_position_in_grid]]) {
  const long row = i / p.per_row * p.length;
  const T_SUM value = values[i];
  long low = 0, high = p.length;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    long at = p.has_order ? order[row + middle] : middle;
    if (at < 0 || at >= p.length) at = middle;
    const T_SUM found = sequence[row + at];
    if (p.right ? !(found > value) : !(found >= value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[i] = OUT(low);
}
)MTL";

// histc, bincount: a thread per bin. No atomics, so sums are deterministic.
const char kHistogramSource[] = R"MTL(
struct HistogramParams {
  long count, parts, weighted;
  float low, high;
};

kernel void count_by_range(device OUT* out, device const T* in, constant HistogramParams& p,
                           uint part [[thread_position_in_grid]]) {
  float low = p.low, high = p.high;
  if (low == high && p.count > 0) {
    low = high = float(in[0]);
    for (long i = 0; i < p.count; ++i) {
      const float value = float(in[i]);
      if (value - value != 0) {
        out[part] = OUT(0);
        return;
      }
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  long found = 0;
  for (long i = 0; i < p.count; ++i) {
    const float value = float(in[i]);
    if (!(value >= low && value <= high)) continue;
    const float at = (value - low) * float(p.parts) / (high - low);
    if ((at < float(p.parts) ? long(at) : p.parts - 1) == long(part)) ++found;
  }
  out[part] = OUT(float(found));
}

kernel void count_numbers(device OUT* out, device const long* in, device const OUT* weights,
                          constant HistogramParams& p, uint number [[thread_position_in_grid]]) {
  OUT_SUM sum = 0;
  for (long i = 0; i < p.count; ++i) {
    if (in[i] == long(number)) sum += p.weighted ? OUT_SUM(weights[i]) : OUT_SUM(1);
  }
  out[number] = OUT(sum);
}
)MTL";

// embedding_bag: a thread per column and bag. Indices out of range are skipped.
const char kEmbeddingSource[] = R"MTL(
struct BagParams {
  long rows, columns, indices, offsets, padding;
  long mode, weighted;
};

kernel void embedding_bags(device T* out, device const T* weight, device const long* indices,
                           device const long* offsets, device const T* factors,
                           device N* bag_of_index, device N* bag_sizes, device N* max_rows,
                           constant BagParams& p, uint2 position [[thread_position_in_grid]]) {
  const long column = position.x, bag = position.y;
  const long next = bag + 1 < p.offsets ? offsets[bag + 1] : p.indices;
  const long begin = offsets[bag] < 0 ? 0 : offsets[bag], end = next < p.indices ? next : p.indices;
  float sum = 0;
  long counted = 0, winner = -1;
  for (long i = begin; i < end; ++i) {
    if (column == 0) bag_of_index[i] = N(bag);
    const long row = indices[i];
    if (row == p.padding || row < 0 || row >= p.rows) continue;
    ++counted;
    if (column >= p.columns) continue;
    const float value = float(weight[row * p.columns + column]);
    if (p.mode != 2) {
      sum += p.weighted ? float(factors[i]) * value : value;
    } else if (counted == 1 || value > sum) {
      sum = value;
      winner = row;
    }
  }
  if (column == 0) bag_sizes[bag] = N(counted);
  if (column >= p.columns) return;
  if (p.mode == 2) max_rows[bag * p.columns + column] = N(winner);
  out[bag * p.columns + column] = T(p.mode == 1 && counted > 0 ? sum / float(counted) : sum);
}
)MTL";

// cdist: a thread per pair of rows.
const char kDistanceSource[] = R"MTL(
struct DistanceParams {
  long rows, columns, length, each_once;
  float p;
};

kernel void distances(device T* out, device const T* x1, device const T* x2,
                      constant DistanceParams& p, uint2 position [[thread_position_in_grid]]) {
  const long j = position.x, line = position.y;
  if (p.each_once && j <= line) return;
  device const T* const a = x1 + line * p.length;
  device const T* const b = x2 + (line / p.rows * p.columns + j) * p.length;
  float sum = 0;
  for (long i = 0; i < p.length; ++i) {
    const float difference = metal::fabs(float(a[i]) - float(b[i]));
    if (p.p == 0) {
      sum += a[i] != b[i] ? 1 : 0;
    } else if (p.p == INFINITY) {
      sum = difference > sum || difference != difference ? difference : sum;
    } else {
      sum += p.p == 1 ? difference
             : p.p == 2 ? difference * difference
                        : metal::precise::pow(difference, p.p);
    }
  }
  if (p.p == 2) {
    sum = metal::precise::sqrt(sum);
  } else if (p.p != 0 && p.p != 1 && p.p != INFINITY) {
    sum = metal::precise::pow(sum, 1 / p.p);
  }
  out[line * p.columns + j - (p.each_once ? (line + 1) * (line + 2) / 2 : 0)] = T(sum);
}
)MTL";

// unique and masked_scatter.
const char kRunSource[] = R"MTL(
struct RunParams {
  long count, width, ends, has_order;
};

kernel void order_rows(device long* order, device const T* rows, constant RunParams& p,
                       uint mine [[thread_position_in_grid]]) {
  long rank = 0;
  for (long i = 0; i < p.count; ++i) {
    bool before = i < long(mine);
    for (long c = 0; c < p.width; ++c) {
      const T other = rows[i * p.width + c], element = rows[mine * p.width + c];
      const bool less = is_less(other, element);
      if (!less && !is_less(element, other)) continue;
      before = less;
      break;
    }
    if (before) ++rank;
  }
  order[rank] = mine;
}

kernel void mark_runs(device bool* starts, device const T* rows, device const long* order,
                      constant RunParams& p, uint i [[thread_position_in_grid]]) {
  bool starts_here = i == 0;
  for (long c = 0; c < p.width && !starts_here; ++c) {
    const long row = p.has_order ? order[i] : i, before = p.has_order ? order[i - 1] : i - 1;
    starts_here = rows[row * p.width + c] != rows[before * p.width + c];
  }
  starts[i] = starts_here;
}

kernel void number_runs(device N* numbers, device const long* ends, device const long* order,
                        constant RunParams& p, uint i [[thread_position_in_grid]]) {
  long low = 0, high = p.ends;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    if (ends[middle] <= long(i)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  numbers[p.has_order ? order[i] : i] = N(low);
}

kernel void measure_runs(device long* lengths, device const long* ends, constant RunParams& p,
                         uint run [[thread_position_in_grid]]) {
  const long begin = run > 0 ? ends[run - 1] : 0;
  lengths[run] = (long(run) < p.ends ? ends[run] : p.count) - begin;
}

// `ranks` is the inclusive scan of the mask.
kernel void scatter_where(device T* out, device const bool* mask, device const long* ranks,
                          device const T* source, constant RunParams& p,
                          uint i [[thread_position_in_grid]]) {
  if (mask[i] && ranks[i] <= p.count) out[i] = source[ranks[i] - 1];
}
)MTL";

}  // namespace pteron::metal
