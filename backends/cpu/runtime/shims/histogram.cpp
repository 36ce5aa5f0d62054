#include "pteron/backends/aoti/ops/histogram/histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pteron/backends/aoti/ops/on_host/on_host.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

template <typename T>
Error count_by_range(const SlimTensor& self, double low, double high, const SlimTensor& out) {
  using Wide = slim::accumulate_t<T>;
  const T* const data = self.data_as<const T>();
  const int64_t numel = self.numel(), bins = out.numel();
  Wide first = static_cast<Wide>(low), last = static_cast<Wide>(high);
  if (low == high && numel > 0) {
    first = last = data[0];
    for (int64_t i = 0; i < numel; ++i) {
      const Wide value = data[i];
      PTERON_CHECK_OR_RETURN(std::isfinite(value), Error::InvalidArgument,
                             "found %g in self, expected finite numbers or a range",
                             static_cast<double>(value));
      first = std::min(first, value);
      last = std::max(last, value);
    }
  }
  if (first == last) {
    first -= 1;
    last += 1;
  }
  std::vector<int64_t> counts(static_cast<size_t>(bins));
  for (int64_t i = 0; i < numel; ++i) {
    const Wide value = data[i];
    if (!(value >= first && value <= last)) continue;
    const Wide bin = (value - first) * static_cast<Wide>(bins) / (last - first);
    ++counts[static_cast<size_t>(bin < static_cast<Wide>(bins) ? static_cast<int64_t>(bin)
                                                               : bins - 1)];
  }
  std::transform(counts.begin(), counts.end(), out.data_as<T>(),
                 [](int64_t count) { return static_cast<T>(static_cast<Wide>(count)); });
  return Error::Ok;
}

template <typename T, typename Weight>
void add_up(const SlimTensor& self, const Weight& weight, const SlimTensor& out) {
  T* const sums = out.data_as<T>();
  std::fill(sums, sums + out.numel(), T{0});
  for (int64_t i = 0; i < self.numel(); ++i) sums[self.data_as<const int64_t>()[i]] += weight(i);
}

}  // namespace

Error histogram(const aoti::HistogramCall& call) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, slim::contiguous_tensor(call.self));
  PTERON_DISPATCH_FLOATING(in->dtype(), T,
                           return count_by_range<T>(*in, call.low, call.high, call.out));
  return aoti::no_kernel_for(call.self);
}

Error range(const aoti::RangeCall& call) { return aoti::on_host::range(call); }

Error count(const aoti::CountCall& call) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, converted(call.self, DType::Long));
  if (!call.weights) {
    add_up<int64_t>(*in, [](int64_t) { return 1; }, call.out);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr weights, converted(*call.weights, call.out.dtype()));
  if (call.out.dtype() == DType::Float) {
    const auto* const w = weights->data_as<const float>();
    add_up<float>(*in, [w](int64_t i) { return w[i]; }, call.out);
  } else {
    const auto* const w = weights->data_as<const double>();
    add_up<double>(*in, [w](int64_t i) { return w[i]; }, call.out);
  }
  return Error::Ok;
}

}  // namespace pteron::cpu
