// Bags of embeddings: sums, means or maxima of rows of a table.
#include <algorithm>
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/shims/advanced_index.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

enum class Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  TensorPtr table;    // row-major
  TensorPtr indices;  // int64
  TensorPtr offsets;  // int64
  TensorPtr weights;  // of the table's dtype, or null
  Mode mode;
  int64_t count;    // bags
  int64_t padding;  // row that does not count; -1 for none
  DType index_dtype;

  int64_t begin(int64_t bag) const { return offsets->data_as<int64_t>()[bag]; }
  int64_t end(int64_t bag) const {
    return bag + 1 < offsets->numel() ? offsets->data_as<int64_t>()[bag + 1] : indices->numel();
  }
};

Result<Bags> read_bags(AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets,
                       int64_t mode, AtenTensorHandle per_sample_weights, bool include_last_offset,
                       int64_t padding_idx) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(weight, "weight"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(indices, "indices"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(offsets, "offsets"));
  const auto is_index = [](DType dtype) { return dtype == DType::Long || dtype == DType::Int; };
  PTERON_CHECK_OR_RETURN(weight->dim() == 2 && indices->dim() == 1 && offsets->dim() == 1 &&
                             is_index(indices->dtype()) && is_index(offsets->dtype()),
                         Error::InvalidArgument,
                         "found weight %s, indices %s, offsets %s, expected 2, 1 and 1 dimensions "
                         "and int32 or int64 indices and offsets",
                         weight->describe().c_str(), indices->describe().c_str(),
                         offsets->describe().c_str());
  PTERON_CHECK_OR_RETURN(mode >= 0 && mode <= 2, Error::InvalidArgument,
                         "found mode %lld, expected 0 (sum), 1 (mean) or 2 (max)",
                         static_cast<long long>(mode));
  Bags bags;
  bags.mode = static_cast<Mode>(mode);
  bags.index_dtype = indices->dtype();
  const int64_t rows = weight->size(0);
  bags.padding = padding_idx >= 0 ? padding_idx : -1;
  bags.count = offsets->size(0) - (include_last_offset ? 1 : 0);
  PTERON_CHECK_OR_RETURN(bags.count >= 0, Error::InvalidArgument,
                         "found offsets %s, expected at least one", offsets->describe().c_str());
  PTERON_ASSIGN_OR_RETURN(bags.table, slim::contiguous_tensor(*weight));
  PTERON_ASSIGN_OR_RETURN(bags.indices, as_int64(*indices));
  PTERON_ASSIGN_OR_RETURN(bags.offsets, as_int64(*offsets));
  if (per_sample_weights) {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(per_sample_weights, "per_sample_weights"));
    PTERON_CHECK_OR_RETURN(bags.mode == Mode::kSum && per_sample_weights->dim() == 1 &&
                               per_sample_weights->size(0) == indices->size(0) &&
                               per_sample_weights->dtype() == weight->dtype(),
                           Error::InvalidArgument,
                           "found per_sample_weights %s, weight %s and mode %lld, expected a "
                           "weight for each index, of the table's dtype, and mode 0 (sum)",
                           per_sample_weights->describe().c_str(), weight->describe().c_str(),
                           static_cast<long long>(mode));
    PTERON_ASSIGN_OR_RETURN(bags.weights, slim::contiguous_tensor(*per_sample_weights));
  }
  for (int64_t i = 0; i < indices->numel(); ++i) {
    const int64_t index = bags.indices->data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(index >= 0 && index < rows, Error::InvalidArgument,
                           "found index %lld, expected 0 to %lld for weight %s",
                           static_cast<long long>(index), static_cast<long long>(rows - 1),
                           weight->describe().c_str());
  }
  int64_t before = 0;
  for (int64_t i = 0; i < offsets->numel(); ++i) {
    const int64_t offset = bags.offsets->data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(offset >= before && offset <= indices->numel() && (i > 0 || offset == 0),
                           Error::InvalidArgument,
                           "found offset %lld at %lld, expected offsets that start at 0 and rise "
                           "to at most the number of indices",
                           static_cast<long long>(offset), static_cast<long long>(i));
    before = offset;
  }
  return bags;
}

// Writes out [bags, dim], how many rows counted in each bag, and for maxima which rows they are
// from.
template <typename T>
void fill_bags(const Bags& bags, const SlimTensor& out, int64_t* sizes, int64_t* max_indices) {
  using Wide = slim::accumulate_t<T>;
  const int64_t dim = bags.table->size(1);
  const T* table = bags.table->data_as<const T>();
  const int64_t* indices = bags.indices->data_as<const int64_t>();
  parallel_for(bags.count, 16384 / std::max<int64_t>(dim, 1) + 1, [&](int64_t first, int64_t last) {
    Scratch<Wide> sums(dim);
    for (int64_t bag = first; bag < last; ++bag) {
      std::fill(sums.data(), sums.data() + dim, Wide(0));
      int64_t* winners = max_indices ? max_indices + bag * dim : nullptr;
      if (winners) std::fill(winners, winners + dim, int64_t{0});
      int64_t counted = 0;
      for (int64_t i = bags.begin(bag); i < bags.end(bag); ++i) {
        if (indices[i] == bags.padding) continue;
        const T* row = table + indices[i] * dim;
        if (bags.mode == Mode::kMax) {
          for (int64_t d = 0; d < dim; ++d) {
            const Wide value = row[d];
            if (counted == 0 || value > sums[d]) {
              sums[d] = value;
              if (winners) winners[d] = indices[i];
            }
          }
        } else {
          const Wide scale =
              bags.weights ? static_cast<Wide>(bags.weights->data_as<const T>()[i]) : Wide(1);
          for (int64_t d = 0; d < dim; ++d) sums[d] += scale * static_cast<Wide>(row[d]);
        }
        ++counted;
      }
      sizes[bag] = counted;
      const Wide divisor =
          bags.mode == Mode::kMean && counted > 0 ? static_cast<Wide>(counted) : Wide(1);
      T* to = out.data_as<T>() + bag * dim;
      for (int64_t d = 0; d < dim; ++d) to[d] = static_cast<T>(sums[d] / divisor);
    }
  });
}

// A result of integers of the indices' type.
Result<TensorPtr> index_result(Span<const int64_t> sizes, DType dtype, const int64_t* values) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, slim::make_tensor(sizes, dtype));
  for (int64_t i = 0; i < out->numel(); ++i) {
    if (dtype == DType::Long) {
      out->data_as<int64_t>()[i] = values[i];
    } else {
      out->data_as<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return out;
}

// The result, the bag of each index, the size of each bag, and the rows that maxima are from. The
// last three serve gradients; they have the shapes that torch gives them.
Error embedding_bag(const Bags& bags, bool with_bag_of_each, AtenTensorHandle* out,
                    AtenTensorHandle* bag_of_each, AtenTensorHandle* bag_sizes,
                    AtenTensorHandle* max_indices) {
  for (const void* pointer : {static_cast<void*>(out), static_cast<void*>(bag_of_each),
                              static_cast<void*>(bag_sizes), static_cast<void*>(max_indices)}) {
    PTERON_RETURN_IF_ERROR(check_pointer(pointer, "a result"));
  }
  const int64_t dim = bags.table->size(1);
  const int64_t sizes[] = {bags.count, dim};
  PTERON_ASSIGN_OR_RETURN(TensorPtr result, slim::make_tensor(sizes, bags.table->dtype()));
  std::vector<int64_t> counted(static_cast<size_t>(bags.count));
  std::vector<int64_t> winners(bags.mode == Mode::kMax ? static_cast<size_t>(bags.count * dim) : 0);
  bool done = false;
  PTERON_DISPATCH_FLOATING(bags.table->dtype(), T, {
    fill_bags<T>(bags, *result, counted.data(), winners.empty() ? nullptr : winners.data());
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(bags.table);

  std::vector<int64_t> owners;
  if (with_bag_of_each) {
    owners.resize(static_cast<size_t>(bags.indices->numel()));
    for (int64_t bag = 0; bag < bags.count; ++bag) {
      std::fill(owners.begin() + bags.begin(bag), owners.begin() + bags.end(bag), bag);
    }
  }
  const auto num_owners = static_cast<int64_t>(owners.size());
  PTERON_ASSIGN_OR_RETURN(TensorPtr owner, index_result(Span<const int64_t>(&num_owners, 1),
                                                        bags.index_dtype, owners.data()));
  PTERON_ASSIGN_OR_RETURN(TensorPtr size, index_result(Span<const int64_t>(&bags.count, 1),
                                                       bags.index_dtype, counted.data()));
  const bool maxima = bags.mode == Mode::kMax;
  PTERON_ASSIGN_OR_RETURN(
      TensorPtr rows,
      index_result(maxima ? Span<const int64_t>(sizes) : Span<const int64_t>(&bags.count, 1),
                   bags.index_dtype, maxima ? winners.data() : counted.data()));
  *out = result.release();
  *bag_of_each = owner.release();
  *bag_sizes = size.release();
  *max_indices = rows.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu__embedding_bag_forward_only)
(AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, int32_t, int64_t mode,
 int32_t, AtenTensorHandle* per_sample_weights, int32_t include_last_offset, int64_t padding_idx,
 AtenTensorHandle* out, AtenTensorHandle* offset2bag, AtenTensorHandle* bag_size,
 AtenTensorHandle* max_indices) {
  return c_boundary("aoti_torch_cpu__embedding_bag_forward_only", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(const Bags bags,
                            read_bags(weight, indices, offsets, mode, optional(per_sample_weights),
                                      include_last_offset != 0, padding_idx));
    return embedding_bag(bags, bags.mode != Mode::kSum, out, offset2bag, bag_size, max_indices);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu__embedding_bag)
(AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, int32_t, int64_t mode,
 int32_t, AtenTensorHandle* per_sample_weights, int32_t include_last_offset, int64_t padding_idx,
 AtenTensorHandle* out, AtenTensorHandle* offset2bag, AtenTensorHandle* bag_size,
 AtenTensorHandle* max_indices) {
  return c_boundary("aoti_torch_cpu__embedding_bag", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(const Bags bags,
                            read_bags(weight, indices, offsets, mode, optional(per_sample_weights),
                                      include_last_offset != 0, padding_idx));
    return embedding_bag(bags, true, out, offset2bag, bag_size, max_indices);
  });
}

}  // namespace pteron::cpu
