#include "pteron/backends/aoti/ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/random.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// out[i] = number(i).
template <typename Number>
Error store(const SlimTensor& out, const Number& number) {
  PTERON_DISPATCH_REAL(out.dtype(), T, {
    for (int64_t i = 0; i < out.numel(); ++i) {
      out.data_as<T>()[i] = static_cast<T>(static_cast<slim::accumulate_t<T>>(number(i)));
    }
    return Error::Ok;
  });
  return aoti::no_kernel_for(out);
}

// Sampling without replacement: sorts by exponential variates with these rates.
void race(RandomStream& stream, const double* rates, int64_t length, int64_t count, int64_t* out) {
  std::vector<std::pair<double, int64_t>> times(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const double time = -std::log1p(-stream.uniform());
    times[static_cast<size_t>(i)] = {
        rates[i] > 0 ? time / rates[i] : std::numeric_limits<double>::infinity(), i};
  }
  std::partial_sort(times.begin(), times.begin() + count, times.end());
  for (int64_t i = 0; i < count; ++i) out[i] = times[static_cast<size_t>(i)].second;
}

}  // namespace

Error random_integers(const aoti::RandomIntegersCall& call) {
  RandomStream stream = next_random_stream();
  const auto low = static_cast<uint64_t>(call.low);
  const uint64_t count = static_cast<uint64_t>(call.high) - low;
  return store(call.out, [&](int64_t) { return static_cast<int64_t>(low + stream.below(count)); });
}

Error random_permutation(const aoti::PermutationCall& call) {
  std::vector<int64_t> values(static_cast<size_t>(call.out.numel()));
  std::iota(values.begin(), values.end(), int64_t{0});
  RandomStream stream = next_random_stream();
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
  return store(call.out, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, converted(call.self, DType::Double));
  const int64_t length = call.length(), count = call.count();
  RandomStream stream = next_random_stream();
  std::vector<double> sums(static_cast<size_t>(length));
  for (int64_t row = 0; row < call.rows(); ++row) {
    const double* const p = in->data_as<const double>() + row * length;
    int64_t* const out = call.out.data_as<int64_t>() + row * count;
    std::partial_sum(p, p + length, sums.begin());
    const double total = sums.back();
    const bool right = std::all_of(p, p + length, [](double x) { return x >= 0; });
    PTERON_CHECK_OR_RETURN(right && total > 0 && std::isfinite(total), Error::InvalidArgument,
                           "found a row of sum %g in self, expected finite numbers, none below 0 "
                           "and some above",
                           total);
    if (!call.replacement) {
      race(stream, p, length, count, out);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const auto found = std::upper_bound(sums.begin(), sums.end(), stream.uniform() * total);
      // If rounding reaches the total, selects the last element above 0.
      out[i] = (found == sums.end() ? std::lower_bound(sums.begin(), sums.end(), total) : found) -
               sums.begin();
    }
  }
  return Error::Ok;
}

}  // namespace pteron::cpu
