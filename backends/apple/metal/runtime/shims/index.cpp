#include "pteron/backends/aoti/ops/index/index.h"

#include <algorithm>
#include <vector>

#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

using Kind = aoti::IndexCall::Kind;

Error check_dims(const SlimTensor& tensor) {
  PTERON_CHECK_OR_RETURN(tensor.dim() <= kMostDims, Error::NotSupported,
                         "%s has %zu dimensions, at most %lld are possible",
                         tensor.describe().c_str(), tensor.dim(),
                         static_cast<long long>(kMostDims));
  return Error::Ok;
}

// The contribution of the indices to offsets into x, row-major, same sizes as the indices.
Result<TensorPtr> offsets_of(const aoti::Indexed& indexed) {
  const SlimTensor& shape = *indexed.picked.front().numbers;
  PTERON_RETURN_IF_ERROR(check_dims(shape));
  PTERON_ASSIGN_OR_RETURN(TensorPtr offsets,
                          aoti::make_row_major(shape.sizes(), DType::Long, shape.device()));
  for (const aoti::Indexed::Picked& picked : indexed.picked) {
    OffsetParams params{};
    params.dims = static_cast<int64_t>(shape.dim());
    params.count = shape.numel();
    std::copy(shape.sizes().begin(), shape.sizes().end(), params.sizes);
    const Span<const int64_t> strides = picked.numbers->strides();
    std::copy(strides.begin(), strides.end(), params.numbers);
    params.size = picked.size;
    params.stride = picked.stride;
    params.is_first = &picked == &indexed.picked.front();
    PTERON_RETURN_IF_ERROR(launch(kIndexSource, {{"N", picked.numbers->dtype()}, {"T", DType::Int}},
                                  "add_offsets",
                                  {memory(*offsets), memory(*picked.numbers), bytes(params)},
                                  {static_cast<uint64_t>(params.count), 1, 1}));
  }
  return offsets;
}

}  // namespace

Error fill(const SlimTensor& out, const slim::Scalar& value) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  slim::fill_tensor(out, value);
  return Error::Ok;
}

Error index(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  PTERON_RETURN_IF_ERROR(check_dims(x));
  if (x.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, offsets_of(call.indexed));
  IndexParams params{};
  params.dims = static_cast<int64_t>(x.dim());
  params.count = x.numel();
  std::copy(x.sizes().begin(), x.sizes().end(), params.sizes);
  std::copy(x.strides().begin(), x.strides().end(), params.x);
  std::copy(other.strides().begin(), other.strides().end(), params.other);
  std::copy(offsets->strides().begin(), offsets->strides().end(),
            params.offsets + call.indexed.first);
  params.kind = static_cast<int64_t>(call.kind);
  params.include_self = call.include_self;
  if (call.kind == Kind::kRead || call.kind == Kind::kWrite) {
    return launch(kIndexSource, {{"N", DType::Long}, {"T", dtype_of_bytes(x.item_size())}},
                  call.kind == Kind::kRead ? "read_elements" : "write_elements",
                  {memory(x), memory(other), memory(*offsets), bytes(params)},
                  {static_cast<uint64_t>(params.count), 1, 1});
  }
  const int64_t sizes[] = {call.indexed.reach()};
  PTERON_ASSIGN_OR_RETURN(const TensorPtr counts,
                          aoti::make_row_major(sizes, DType::Int, x.device()));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(*counts));
  return launch(kIndexSource, {{"N", DType::Long}, {"T", x.dtype()}}, "reduce_elements",
                {memory(x), memory(other), memory(*offsets), bytes(params), memory(*counts)},
                {1, 1, 1});
}

// Done on the host, which needs the output size.
Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(self));
  PTERON_RETURN_IF_ERROR(wait_for_device());
  std::vector<int64_t> found;
  bool known = false;
  PTERON_DISPATCH_REAL(dense->dtype(), T, {
    const T* const data = dense->data_as<const T>();
    for (int64_t i = 0; i < dense->numel(); ++i) {
      if (static_cast<slim::accumulate_t<T>>(data[i]) != 0) found.push_back(i);
    }
    known = true;
  });
  if (!known) return aoti::no_kernel_for(self);
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

}  // namespace pteron::metal
