#include "pteron/backends/aoti/ops/recurrent/recurrent.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {
namespace {

constexpr std::pair<std::string_view, RecurrentKind> kKinds[] = {
    {"lstm", RecurrentKind::kLstm},
    {"gru", RecurrentKind::kGru},
    {"tanh", RecurrentKind::kTanh},
    {"relu", RecurrentKind::kRelu},
};

bool is(const SlimTensor* tensor, std::initializer_list<int64_t> sizes) {
  return !tensor || has_sizes(*tensor, {sizes.begin(), sizes.size()});
}

}  // namespace

Error recurrent_steps(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
                      const SlimTensor* bias, const SlimTensor* projection, const SlimTensor& hx,
                      const SlimTensor* cx, const char* kind, bool reverse, TensorPtr& out,
                      TensorPtr& c_n) {
  const auto* const known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](const auto& each) { return each.first == kind; });
  PTERON_CHECK_OR_RETURN(known != std::end(kKinds), Error::InvalidArgument,
                         "found kind %s, expected lstm, gru, tanh or relu", kind);
  const bool is_lstm = known->second == RecurrentKind::kLstm;
  const int64_t gates = gates_of(known->second);
  const auto all = [&] {
    const auto describe = [](const SlimTensor* tensor) {
      return tensor ? tensor->describe() : std::string("none");
    };
    return "found kind " + std::string(kind) + ", input " + input.describe() + ", weight " +
           weight.describe() + ", bias " + describe(bias) + ", projection " + describe(projection) +
           ", hx " + hx.describe() + ", cx " + describe(cx);
  };
  const DType dtype = input.dtype();
  for (const SlimTensor* tensor : {&weight, bias, projection, &hx, cx}) {
    PTERON_CHECK_OR_RETURN(!tensor || tensor->dtype() == dtype, Error::InvalidType,
                           "%s; expected one dtype", all().c_str());
  }
  PTERON_CHECK_OR_RETURN(input.dim() == 3 && weight.dim() == 2, Error::InvalidArgument,
                         "%s; expected an input of 3 dimensions, a weight of 2", all().c_str());
  const int64_t steps = input.size(0), batch = input.size(1), rows = weight.size(0);
  const int64_t units = rows / gates, outputs = weight.size(1);
  PTERON_CHECK_OR_RETURN(
      input.size(2) == rows && rows % gates == 0 && is(bias, {rows}) &&
          (projection ? is_lstm && is(projection, {outputs, units}) : outputs == units) &&
          is(&hx, {batch, outputs}) && is_lstm == (cx != nullptr) && is(cx, {batch, units}),
      Error::InvalidArgument,
      "%s; expected [steps, batch, gates], [gates, outputs], [gates], [outputs, units], "
      "[batch, outputs], [batch, units], the last for an LSTM, with %lld gates for each unit",
      all().c_str(), static_cast<long long>(gates));
  PTERON_CHECK_OR_RETURN(steps > 0, Error::InvalidArgument,
                         "%s; expected at least one step of the sequence", all().c_str());
  const int64_t sizes[] = {steps, batch, outputs}, none[] = {0};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, dtype, input.device()));
  PTERON_ASSIGN_OR_RETURN(
      c_n, make_row_major(cx ? cx->sizes() : Span<const int64_t>(none, 1), dtype, input.device()));
  if (batch == 0) return Error::Ok;
  if (cx) PTERON_RETURN_IF_ERROR(slim::copy_tensor(*c_n, *cx));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x, slim::contiguous_tensor(input));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr w, slim::contiguous_tensor(weight));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr h, slim::contiguous_tensor(hx));
  TensorPtr b, p;
  if (bias) {
    PTERON_ASSIGN_OR_RETURN(b, slim::contiguous_tensor(*bias));
  }
  if (projection) {
    PTERON_ASSIGN_OR_RETURN(p, slim::contiguous_tensor(*projection));
  }
  return kernels.recurrent(
      {known->second, reverse, *x, *w, b.get(), p.get(), *h, cx ? c_n.get() : nullptr, *out});
}

}  // namespace pteron::aoti::ops
