#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// Sorting, selection, scans and Fourier transforms along a dimension.
const char kRowSource[] = R"MTL(
struct RowParams {
  long dims, length, count;
  long sizes[16], in[16], out[16];
  long in_step, out_step;
  long kind;
};

struct Row {
  long in, out;
};
inline Row row_of(constant RowParams& p, long number) {
  Row row = {0, 0};
  for (long d = p.dims; d-- > 0; number /= p.sizes[d]) {
    row.in += number % p.sizes[d] * p.in[d];
    row.out += number % p.sizes[d] * p.out[d];
  }
  return row;
}

// NaN counts as the greatest.
inline bool is_less(IN a, IN b) { return a < b || (b != b && a == a); }

// A thread finds the rank of one element, by counting those that come before it; equal ones keep
// their order. The first `count` of the ranks are wanted.
kernel void sort_rows(device IN* values, device long* indices, device const IN* in,
                      constant RowParams& p, uint2 position [[thread_position_in_grid]]) {
  const Row row = row_of(p, position.y);
  const long mine = position.x;
  const IN element = in[row.in + mine * p.in_step];
  long rank = 0;
  for (long i = 0; i < p.length && rank < p.count; ++i) {
    const IN other = in[row.in + i * p.in_step];
    const bool before = p.kind ? is_less(element, other) : is_less(other, element);
    const bool after = p.kind ? is_less(other, element) : is_less(element, other);
    if (before || (!after && i < mine)) ++rank;
  }
  if (rank >= p.count) return;
  values[row.out + rank * p.out_step] = element;
  indices[row.out + rank * p.out_step] = mine;
}

// A thread goes along one row.
kernel void scan_rows(device OUT* out, device const IN* in, constant RowParams& p,
                      uint number [[thread_position_in_grid]]) {
  const Row row = row_of(p, number);
  OUT_SUM running = p.kind == 1 ? OUT_SUM(1) : OUT_SUM(0);
  float greatest = -INFINITY, total = 0;  // of a logarithm of a sum
  OUT_SUM lost = 0;                       // what rounding took from a sum of floats
  for (long i = 0; i < p.length; ++i) {
    const OUT_SUM next = OUT_SUM(OUT(in[row.in + i * p.in_step]));
    if (p.kind == 0) {
      const OUT_SUM added = next - lost, sum = running + added;
      const OUT_SUM error = (sum - running) - added;
      lost = error == error && error - error == 0 ? error : OUT_SUM(0);
      running = sum;
    } else if (p.kind == 1) {
      running *= next;
    } else {
      const float value = float(next);
      if (value != value || total != total) {
        total = NAN;
      } else if (value == INFINITY || greatest == INFINITY) {
        greatest = INFINITY;
        total = 1;
      } else if (value > greatest) {
        total = total * metal::precise::exp(greatest - value) + 1;
        greatest = value;
      } else if (value != -INFINITY) {
        total += metal::precise::exp(value - greatest);
      }
      running = OUT_SUM(greatest == -INFINITY && total == 0 ? -INFINITY
                                                            : greatest + metal::precise::log(total));
    }
    out[row.out + i * p.out_step] = OUT(running);
  }
}

kernel void extremes_of_rows(device OUT* out, device const IN* in, constant RowParams& p,
                             device long* indices, uint number [[thread_position_in_grid]]) {
  const Row row = row_of(p, number);
  OUT held = OUT(in[row.in]);
  long best = 0;
  for (long i = 0; i < p.length; ++i) {
    const OUT next = OUT(in[row.in + i * p.in_step]);
    const bool better = p.kind == 3 ? next >= held : next <= held;
    if (next != next || (held == held && better)) {
      held = next;
      best = i;
    }
    out[row.out + i * p.out_step] = held;
    indices[row.out + i * p.out_step] = best;
  }
}

// Of each row the element of a rank, or the most frequent one. A thread finds the rank of one
// element; the first one of a row counts how often each is there.
kernel void select_of_rows(device IN* values, device long* indices, device const IN* in,
                           constant RowParams& p, uint2 position [[thread_position_in_grid]]) {
  device const IN* const row = in + row_of(p, position.y).in;
  const long mine = position.x;
  long found = mine;
  if (p.kind == 3) {
    if (mine > 0) return;
    long most = 0;
    for (long i = 0; i < p.length; ++i) {
      const IN element = row[i * p.in_step];
      long frequency = element == element ? 0 : 1;
      bool is_last = true;
      for (long j = 0; j < p.length; ++j) {
        if (row[j * p.in_step] != element) continue;
        ++frequency;
        if (j > i) is_last = false;
      }
      const bool better = frequency > most ||
                          (frequency == most && is_less(element, row[found * p.in_step]));
      if (!is_last || !better) continue;
      most = frequency;
      found = i;
    }
  } else {
    const IN element = row[mine * p.in_step];
    long rank = 0, numbers = 0;
    for (long i = 0; i < p.length; ++i) {
      const IN other = row[i * p.in_step];
      if (other == other) ++numbers;
      if (is_less(other, element) || (!is_less(element, other) && i < mine)) ++rank;
    }
    long wanted = p.count - 1;
    if (p.kind == 1) wanted = numbers < p.length ? numbers : (p.length - 1) / 2;
    if (p.kind == 2) wanted = numbers > 0 ? (numbers - 1) / 2 : 0;
    if (rank != wanted) return;
  }
  values[position.y] = row[found * p.in_step];
  indices[position.y] = found;
}

// A thread sums up one number of one row. Of complex rows that are too short the rest is conjugate.
struct TransformParams {
  long length, in_parts, parts;
  float turn, scale;
};

kernel void transform_rows(device float* out, device const float* in, constant RowParams& p,
                           constant TransformParams& t,
                           uint2 position [[thread_position_in_grid]]) {
  const Row row = row_of(p, position.y);
  const long mine = position.x;
  float real = 0, imaginary = 0;
  for (long i = 0; i < t.length; ++i) {
    const bool is_there = i < p.length;
    const long at = (row.in + (is_there ? i : t.length - i) * p.in_step) * t.in_parts;
    const bool is_real = t.in_parts == 1 || (t.parts == 1 && (i == 0 || 2 * i == t.length));
    const float x = in[at], y = is_real ? 0 : is_there ? in[at + 1] : -in[at + 1];
    const float angle = t.turn * (float(mine * i % t.length) / float(t.length));
    const float c = metal::precise::cos(angle), s = metal::precise::sin(angle);
    real += x * c - y * s;
    imaginary += x * s + y * c;
  }
  const long to = (row.out + mine * p.out_step) * t.parts;
  out[to] = real * t.scale;
  // Of real numbers, the first coefficient and the middle one are real, also of NaN.
  const bool is_real = t.in_parts == 1 && (mine == 0 || 2 * mine == t.length);
  if (t.parts == 2) out[to + 1] = is_real ? 0 : imaginary * t.scale;
}
)MTL";

}  // namespace pteron::metal
