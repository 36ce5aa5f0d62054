#include "pteron/backends/aoti/ops/index/index.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/on_host/on_host.h"
#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/cpu/runtime/kernels/bytes.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using Kind = aoti::IndexCall::Kind;

size_t last_dim(const SlimTensor& tensor) { return tensor.dim() == 0 ? 0 : tensor.dim() - 1; }

// The contribution of the indices to offsets into x, expanded to the output's sizes.
Result<TensorPtr> offsets_of(const aoti::Indexed& indexed) {
  const Span<const int64_t> shape = indexed.picked.front().numbers->sizes();
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, slim::make_tensor(shape, DType::Long));
  int64_t* const offset = offsets->data_as<int64_t>();
  std::fill(offset, offset + offsets->numel(), 0);
  for (const aoti::Indexed::Picked& picked : indexed.picked) {
    PTERON_ASSIGN_OR_RETURN(const TensorPtr numbers, converted(*picked.numbers, DType::Long));
    for (int64_t i = 0; i < offsets->numel(); ++i) {
      const int64_t number = numbers->data_as<int64_t>()[i];
      offset[i] += (number < 0 ? number + picked.size : number) * picked.stride;
    }
  }
  int64_t strides[slim::kMaxDims] = {};
  std::copy(offsets->strides().begin(), offsets->strides().end(), strides + indexed.first);
  return aoti::make_view(*offsets, indexed.x->sizes(), {strides, indexed.x->dim()}, 0);
}

// Calls body(offset into x, offset into other) for each element, in order.
template <typename Body>
void for_each(const aoti::IndexCall& call, const SlimTensor& offsets, const Body& body) {
  const SlimTensor& x = *call.indexed.x;
  const Rows ours(x, last_dim(x)), others(call.other, last_dim(x)), added(offsets, last_dim(x));
  for (int64_t row = 0; row < ours.count(); ++row) {
    const int64_t at = ours.offset(row), other = others.offset(row);
    const int64_t* const add = offsets.data_as<const int64_t>() + added.offset(row);
    for (int64_t i = 0; i < ours.length(); ++i) {
      body(at + i * ours.stride() + add[i * added.stride()], other + i * others.stride());
    }
  }
}

template <typename T>
T combine(Kind kind, T a, T b) {
  using Wide = slim::accumulate_t<T>;
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, Wide>;  // integers wrap
  const Wide x = a, y = b;
  switch (kind) {
    case Kind::kProduct:
      return static_cast<T>(static_cast<Sum>(x) * static_cast<Sum>(y));
    case Kind::kMaximum:
      return is_nan(a) || x >= y ? a : b;
    case Kind::kMinimum:
      return is_nan(a) || x <= y ? a : b;
    default:
      return static_cast<T>(static_cast<Sum>(x) + static_cast<Sum>(y));
  }
}

template <typename T>
T quotient(T sum, int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide = static_cast<int64_t>(sum);
    return static_cast<T>(wide / count - (wide % count < 0 ? 1 : 0));
  } else {
    using Wide = slim::accumulate_t<T>;
    return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(count));
  }
}

template <typename T>
void reduce(const aoti::IndexCall& call, const SlimTensor& offsets) {
  T* const to = call.indexed.x->data_as<T>();
  const T* const from = call.other.data_as<const T>();
  if (call.include_self && call.kind != Kind::kMean) {
    return for_each(call, offsets,
                    [&](int64_t x, int64_t i) { to[x] = combine(call.kind, to[x], from[i]); });
  }
  // Number of values accumulated per element.
  Scratch<int64_t> counts(call.indexed.reach());
  std::fill(counts.data(), counts.data() + call.indexed.reach(), call.include_self ? 1 : 0);
  for_each(call, offsets, [&](int64_t x, int64_t i) {
    to[x] = counts[x]++ == 0 ? from[i] : combine(call.kind, to[x], from[i]);
  });
  if (call.kind != Kind::kMean) return;
  for_each(call, offsets, [&](int64_t x, int64_t) {
    if (counts[x] > 0) to[x] = quotient(to[x], counts[x]);
    counts[x] = 0;  // once
  });
}

template <typename T>
std::optional<int64_t> outside(const SlimTensor& numbers, int64_t low, int64_t end) {
  const Rows rows(numbers, last_dim(numbers));
  for (int64_t row = 0; row < rows.count(); ++row) {
    const T* const number = numbers.data_as<const T>() + rows.offset(row);
    for (int64_t i = 0; i < rows.length(); ++i) {
      const int64_t n = number[i * rows.stride()];
      if (n < low || n >= end) return n;
    }
  }
  return std::nullopt;
}

}  // namespace

Error fill(const SlimTensor& out, const slim::Scalar& value) {
  slim::fill_tensor(out, value);
  return Error::Ok;
}

Error index(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, offsets_of(call.indexed));
  if (x.numel() == 0) return Error::Ok;
  const bool read = call.kind == Kind::kRead;
  if (!read && call.kind != Kind::kWrite) {
    PTERON_DISPATCH_REAL(x.dtype(), T, reduce<T>(call, *offsets); return Error::Ok);
    return aoti::no_kernel_for(x);
  }
  PTERON_DISPATCH_BYTES(x.item_size(), B, {
    B *const ours = x.data_as<B>(), *const others = other.data_as<B>();
    for_each(call, *offsets, [&](int64_t a, int64_t b) {
      if (read) {
        others[b] = ours[a];
      } else {
        ours[a] = others[b];
      }
    });
  });
  return Error::Ok;
}

Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  return aoti::on_host::nonzero(self, coordinates);
}

std::optional<int64_t> find_outside(const SlimTensor& numbers, int64_t low, int64_t end) {
  return numbers.dtype() == DType::Long ? outside<int64_t>(numbers, low, end)
                                        : outside<int32_t>(numbers, low, end);
}

}  // namespace pteron::cpu
