#include "pteron/backends/aoti/ops/on_host/on_host.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/ops/histogram/histogram.h"
#include "pteron/backends/aoti/ops/random/random.h"
#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::aoti::on_host {
namespace {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// Row-major with `dtype`, in host memory: the tensor's own if it already is.
Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype) {
  TensorPtr view;
  if (tensor.device().type != DeviceType::CPU) {
    PTERON_ASSIGN_OR_RETURN(
        view, slim::make_tensor_from_blob(tensor.data(), tensor.sizes(), tensor.strides(), 0,
                                          tensor.dtype(), Device{}));
  }
  const SlimTensor& source = view ? *view : tensor;
  if (source.dtype() == dtype) return slim::contiguous_tensor(source);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, slim::make_tensor(source.sizes(), dtype));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, source));
  return copy;
}

// Random bits (SplitMix64); used by one thread.
class RandomStream final {
 public:
  explicit RandomStream(uint64_t state) : state_(state) {}

  // One that is independent of all others.
  static RandomStream next() {
    static std::atomic<uint64_t> counter{[] {
      std::random_device device;
      return static_cast<uint64_t>(device()) << 32 | device();
    }()};
    // Mixing decorrelates consecutive counters.
    return RandomStream(RandomStream(counter.fetch_add(1, std::memory_order_relaxed))());
  }

  // 64 uniform bits.
  uint64_t operator()() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // Uniform in [0, count); count > 0.
  uint64_t below(uint64_t count) {
    // Rejects values that would bias the result.
    const uint64_t unfair = (0 - count) % count;
    uint64_t bits = (*this)();
    while (bits < unfair) bits = (*this)();
    return bits % count;
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// out[i] = number(i).
template <typename Number>
Error store(const SlimTensor& out, const Number& number) {
  PTERON_DISPATCH_REAL(out.dtype(), T, {
    for (int64_t i = 0; i < out.numel(); ++i) {
      out.data_as<T>()[i] = static_cast<T>(static_cast<slim::accumulate_t<T>>(number(i)));
    }
    return Error::Ok;
  });
  return no_kernel_for(out);
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

// Positions of the non-zero elements of a row-major tensor.
Result<std::vector<int64_t>> positions(const SlimTensor& tensor) {
  std::vector<int64_t> found;
  PTERON_DISPATCH_REAL(tensor.dtype(), T, {
    const T* const data = tensor.data_as<const T>();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      if (static_cast<slim::accumulate_t<T>>(data[i]) != 0) found.push_back(i);
    }
    return found;
  });
  return no_kernel_for(tensor);
}

}  // namespace

Error random_integers(const RandomIntegersCall& call) {
  RandomStream stream = RandomStream::next();
  const auto low = static_cast<uint64_t>(call.low);
  const uint64_t count = static_cast<uint64_t>(call.high) - low;
  return store(call.out, [&](int64_t) { return static_cast<int64_t>(low + stream.below(count)); });
}

Error random_permutation(const PermutationCall& call) {
  std::vector<int64_t> values(static_cast<size_t>(call.out.numel()));
  std::iota(values.begin(), values.end(), int64_t{0});
  RandomStream stream = RandomStream::next();
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
  return store(call.out, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

Error multinomial(const MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, converted(call.self, DType::Double));
  const int64_t length = call.length(), count = call.count();
  RandomStream stream = RandomStream::next();
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

Error range(const RangeCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, converted(call.self, DType::Long));
  const auto* const data = in->data_as<const int64_t>();
  const auto [low, high] = std::minmax_element(data, data + in->numel());
  call.low = *low;
  call.high = *high;
  return Error::Ok;
}

Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, converted(self, self.dtype()));
  std::vector<int64_t> found;
  PTERON_ASSIGN_OR_RETURN(found, positions(*dense));
  const auto count = static_cast<int64_t>(found.size());
  const int64_t sizes[] = {count, static_cast<int64_t>(self.dim())};
  const int64_t strides[] = {1, std::max<int64_t>(count, 1)};
  PTERON_ASSIGN_OR_RETURN(coordinates,
                          slim::make_tensor(sizes, strides, DType::Long, self.device()));
  int64_t* to = coordinates->data_as<int64_t>();
  for (int64_t position : found) {
    for (size_t d = self.dim(); d-- > 0;) {
      to[static_cast<int64_t>(d) * count] = position % self.size(d);
      position /= self.size(d);
    }
    ++to;
  }
  return Error::Ok;
}

}  // namespace pteron::aoti::on_host
