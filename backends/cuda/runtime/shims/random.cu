// Random numbers by Philox 4x32-10, a counter-based generator: element i of draw d depends on the
// seed, d and i alone. Same distribution as torch's, other numbers.
#include <atomic>
#include <limits>
#include <random>

#include "pteron/backends/aoti/ops/random/random.h"
#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/capture.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"
#include "pteron/backends/cuda/runtime/shims/sort.cuh"

namespace pteron::cuda {

Error scan(const aoti::ScanCall& call);  // scan.cu

namespace {

struct Draw {
  uint64_t seed, number;
};

// 64 random bits for element `i` of a draw: two words of Philox 4x32 with 10 rounds.
__device__ inline uint64_t random_bits(Draw draw, uint64_t i) {
  uint32_t counter[4] = {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                         static_cast<uint32_t>(draw.number),
                         static_cast<uint32_t>(draw.number >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(draw.seed), static_cast<uint32_t>(draw.seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return uint64_t{counter[0]} << 32 | counter[1];
}

// Integers from `low` to below low + range; 0 stands for 2^64.
__global__ void random_kernel(Draw draw, int64_t low, uint64_t range, Numbers out, int64_t count) {
  for_each_item(count, [&](int64_t i) {
    const uint64_t bits = random_bits(draw, static_cast<uint64_t>(i));
    // The high word of the product spreads the bits evenly over the range.
    const uint64_t offset = range ? __umul64hi(bits, range) : bits;
    out.store<int64_t>(i, static_cast<int64_t>(static_cast<uint64_t>(low) + offset));
  });
}

// In [0, 1).
__device__ inline double uniform(Draw draw, int64_t i) {
  return static_cast<double>(random_bits(draw, static_cast<uint64_t>(i)) >> 11) * 0x1p-53;
}

__global__ void convert_kernel(const int64_t* x, int64_t count, Numbers out) {
  for_each_item(count, [&](int64_t i) { out.store<int64_t>(i, x[i]); });
}

// Independent waiting times with the numbers as rates.
__global__ void race_kernel(Draw draw, Numbers x, int64_t count, double* times) {
  for_each_item(count, [&](int64_t i) {
    const double rate = x.load<double>(i);
    times[i] = rate > 0 ? -log1p(-uniform(draw, i)) / rate : INFINITY;
  });
}

// `sums` are those of each row of n elements up to every element of it.
__global__ void pick_kernel(Draw draw, const double* sums, int64_t n, int64_t per_row,
                            int64_t draws, int64_t* out) {
  for_each_item(draws, [&](int64_t i) {
    const double* const row = sums + i / per_row * n;
    const double total = row[n - 1], drawn = uniform(draw, i) * total;
    // A product that was rounded up to the total belongs to the last number above 0.
    out[i] = first_that(n - 1, [&](int64_t k) { return row[k] > drawn || row[k] >= total; });
  });
}

// The next draw of a sequence that the system seeds once per process.
Error next_draw(cudaStream_t stream, Draw* draw) {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  static std::atomic<uint64_t> next{0};
  PTERON_RETURN_IF_ERROR(refuse_during_capture("random numbers", "each run draws others", stream));
  *draw = {seed, next.fetch_add(1)};
  return Error::Ok;
}

Error check(const SlimTensor& out) {
  PTERON_CHECK_OR_RETURN(!is_float8(type_of(out)), Error::InvalidType,
                         "random integers: found %s, expected another dtype",
                         slim::name_of(out.dtype()));
  return Error::Ok;
}

}  // namespace

Error random_integers(const aoti::RandomIntegersCall& call) {
  PTERON_RETURN_IF_ERROR(check(call.out));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  Draw draw;
  PTERON_RETURN_IF_ERROR(next_draw(scope.stream(), &draw));
  return launch_items(call.out.numel(), scope.stream(), "drawing random integers", random_kernel,
                      draw, call.low,
                      static_cast<uint64_t>(call.high) - static_cast<uint64_t>(call.low),
                      numbers_of(call.out), call.out.numel());
}

// The order of random keys.
Error random_permutation(const aoti::PermutationCall& call) {
  const int64_t n = call.out.numel();
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  Draw draw;
  PTERON_RETURN_IF_ERROR(next_draw(scope.stream(), &draw));
  if (n == 0) return Error::Ok;
  PTERON_RETURN_IF_ERROR(check(call.out));
  PTERON_ASSIGN_OR_RETURN(
      slim::StorageRef scratch,
      allocate_scratch(3 * static_cast<size_t>(n) * sizeof(int64_t), scope.device()));
  const Numbers keys{scratch->data, ScalarType::Long}, out = numbers_of(call.out);
  auto* const sorted = static_cast<int64_t*>(scratch->data) + n;
  const bool in_place = out.dtype == ScalarType::Long;
  int64_t* const order = in_place ? static_cast<int64_t*>(out.data) : sorted + n;
  constexpr auto kLow = std::numeric_limits<int64_t>::min();
  constexpr auto kRange = std::numeric_limits<uint64_t>::max();
  PTERON_RETURN_IF_ERROR(launch_items(n, scope.stream(), "drawing random integers", random_kernel,
                                      draw, kLow, kRange, keys, n));
  PTERON_RETURN_IF_ERROR(sort_rows(keys, 1, n, /*descending=*/false, n, sorted, order, scope));
  if (in_place) return Error::Ok;
  return launch_items(n, scope.stream(), "storing a permutation", convert_kernel,
                      static_cast<const int64_t*>(order), n, out);
}

// With replacement by the sums of each row up to every element of it; without, by waiting times.
Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  Draw draw;
  PTERON_RETURN_IF_ERROR(next_draw(scope.stream(), &draw));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr numbers,
                          aoti::make_row_major(x->sizes(), DType::Double, x->device()));
  auto* const out = call.out.data_as<int64_t>();
  const int64_t draws = call.rows() * call.count();
  if (call.replacement) {
    PTERON_RETURN_IF_ERROR(
        scan({aoti::ScanCall::Kind::kSum, *x, x->dim() - 1, *numbers, /*indices=*/nullptr}));
    return launch_items(draws, scope.stream(), "drawing from sums", pick_kernel, draw,
                        numbers->data_as<const double>(), call.length(), call.count(), draws, out);
  }
  if (draws == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(
      slim::StorageRef sorted,
      allocate_scratch(static_cast<size_t>(draws) * sizeof(double), scope.device()));
  PTERON_RETURN_IF_ERROR(launch_items(x->numel(), scope.stream(), "drawing waiting times",
                                      race_kernel, draw, numbers_of(*x), x->numel(),
                                      numbers->data_as<double>()));
  return sort_rows(numbers_of(*numbers), call.rows(), call.length(), /*descending=*/false,
                   call.count(), sorted->data, out, scope);
}

}  // namespace pteron::cuda
