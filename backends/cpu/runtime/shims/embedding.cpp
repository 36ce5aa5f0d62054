#include "pteron/backends/aoti/ops/embedding/embedding.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::EmbeddingBagCall;
using Mode = EmbeddingBagCall::Mode;

Error check(const SlimTensor& indices, const SlimTensor& offsets, int64_t rows) {
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t index = indices.data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(index >= 0 && index < rows, Error::InvalidArgument,
                           "found index %lld, expected 0 to %lld", static_cast<long long>(index),
                           static_cast<long long>(rows - 1));
  }
  int64_t before = 0;
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    const int64_t offset = offsets.data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(
        offset >= before && offset <= indices.numel() && (i > 0 || offset == 0),
        Error::InvalidArgument,
        "found offset %lld at %lld, expected offsets that start at 0 and rise to at most the "
        "number of indices",
        static_cast<long long>(offset), static_cast<long long>(i));
    before = offset;
  }
  return Error::Ok;
}

// `Number`: the integer type of the outputs for autograd.
template <typename T, typename Number>
Error fill_bags(const EmbeddingBagCall& call) {
  using Wide = slim::accumulate_t<T>;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr table, slim::contiguous_tensor(call.weight));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr index_list, converted(call.indices, DType::Long));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offset_list, converted(call.offsets, DType::Long));
  PTERON_RETURN_IF_ERROR(check(*index_list, *offset_list, table->size(0)));
  TensorPtr factors;
  if (call.per_sample_weights) {
    PTERON_ASSIGN_OR_RETURN(factors, slim::contiguous_tensor(*call.per_sample_weights));
  }
  const int64_t *indices = index_list->data_as<int64_t>(),
                *offsets = offset_list->data_as<int64_t>();
  const int64_t bags = call.out.size(0), columns = call.out.size(1);
  Number* const counts = call.bag_sizes.data_as<Number>();
  std::fill(counts, counts + call.bag_sizes.numel(), Number(0));
  std::fill(call.bag_of_index.data_as<Number>(),
            call.bag_of_index.data_as<Number>() + call.bag_of_index.numel(), Number(0));
  parallel_for(bags, 16384 / std::max<int64_t>(columns, 1) + 1, [&](int64_t first, int64_t last) {
    Scratch<Wide> sums(columns);
    for (int64_t bag = first; bag < last; ++bag) {
      std::fill(sums.data(), sums.data() + columns, Wide(0));
      Number* winners = call.max_rows ? call.max_rows->data_as<Number>() + bag * columns : nullptr;
      if (winners) std::fill(winners, winners + columns, Number(-1));
      const int64_t end = bag + 1 < offset_list->numel() ? offsets[bag + 1] : index_list->numel();
      int64_t counted = 0;
      for (int64_t i = offsets[bag]; i < end; ++i) {
        call.bag_of_index.data_as<Number>()[i] = static_cast<Number>(bag);
        if (indices[i] == call.padding) continue;
        const T* row = table->data_as<const T>() + indices[i] * columns;
        const Wide factor = factors ? static_cast<Wide>(factors->data_as<const T>()[i]) : Wide(1);
        for (int64_t d = 0; d < columns; ++d) {
          const auto value = static_cast<Wide>(row[d]);
          if (!winners) {
            sums[d] += factor * value;
          } else if (counted == 0 || value > sums[d]) {
            sums[d] = value;
            winners[d] = static_cast<Number>(indices[i]);
          }
        }
        ++counted;
      }
      counts[bag] = static_cast<Number>(counted);
      const Wide divisor =
          call.mode == Mode::kMean && counted > 0 ? static_cast<Wide>(counted) : Wide(1);
      T* to = call.out.data_as<T>() + bag * columns;
      for (int64_t d = 0; d < columns; ++d) to[d] = static_cast<T>(sums[d] / divisor);
    }
  });
  return Error::Ok;
}

}  // namespace

Error embedding_bag(const EmbeddingBagCall& call) {
  PTERON_DISPATCH_FLOATING(call.weight.dtype(), T,
                           return call.bag_sizes.dtype() == DType::Long
                                      ? fill_bags<T, int64_t>(call)
                                      : fill_bags<T, int32_t>(call));
  return aoti::no_kernel_for(call.weight);
}

}  // namespace pteron::cpu
