// Random numbers from the host: seeds for compiled kernels, and rare operators.
#include "pteron/backends/aoti/ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

std::mt19937_64& generator() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator;
}

void store(const SlimTensor& out, int64_t index, int64_t number) {
  slim::store_scalar(out.dtype(), out.data_as<char>() + index * out.item_size(),
                     slim::Scalar::of(number));
}

// Sampling without replacement: the positions with the smallest exponential variates, with the
// row's elements as rates.
void draw_distinct(const std::vector<double>& row, int64_t count, const SlimTensor& out,
                   int64_t first) {
  std::vector<std::pair<double, int64_t>> arrivals;
  for (size_t i = 0; i < row.size(); ++i) {
    const double time = std::exponential_distribution<double>(1)(generator());
    arrivals.emplace_back(row[i] > 0 ? time / row[i] : HUGE_VAL, static_cast<int64_t>(i));
  }
  std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
  for (int64_t i = 0; i < count; ++i)
    store(out, first + i, arrivals[static_cast<size_t>(i)].second);
}

}  // namespace

Error random_integers(const aoti::RandomIntegersCall& call) {
  std::uniform_int_distribution<int64_t> numbers(call.low, call.high - 1);
  PTERON_RETURN_IF_ERROR(wait_for_device());
  for (int64_t i = 0; i < call.out.numel(); ++i) store(call.out, i, numbers(generator()));
  return Error::Ok;
}

Error random_permutation(const aoti::PermutationCall& call) {
  std::vector<int64_t> numbers(static_cast<size_t>(call.out.numel()));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), generator());
  PTERON_RETURN_IF_ERROR(wait_for_device());
  for (size_t i = 0; i < numbers.size(); ++i) store(call.out, static_cast<int64_t>(i), numbers[i]);
  return Error::Ok;
}

Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(call.self));
  PTERON_RETURN_IF_ERROR(wait_for_device());
  for (int64_t r = 0; r < call.rows(); ++r) {
    std::vector<double> row(static_cast<size_t>(call.length()));
    for (int64_t i = 0; i < call.length(); ++i) {
      const char* const at =
          dense->data_as<const char>() + (r * call.length() + i) * dense->item_size();
      row[static_cast<size_t>(i)] = slim::load_scalar(dense->dtype(), at).to_double();
    }
    if (!call.replacement) {
      draw_distinct(row, call.count(), call.out, r * call.count());
      continue;
    }
    std::discrete_distribution<int64_t> positions(row.begin(), row.end());
    for (int64_t i = 0; i < call.count(); ++i) {
      store(call.out, r * call.count() + i, positions(generator()));
    }
  }
  return Error::Ok;
}

}  // namespace pteron::metal
