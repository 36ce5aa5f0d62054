#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {
constexpr int64_t kMaxItems = 256;
}  // namespace

Error scaled_dot_product_attention(const Kernels& kernels, const SlimTensor& query,
                                   const SlimTensor& key, const SlimTensor& value,
                                   const SlimTensor* attn_mask, double dropout_p, bool is_causal,
                                   std::optional<double> scale, bool enable_gqa, TensorPtr& out) {
  const DType dtype = query.dtype();
  PTERON_CHECK_OR_RETURN(
      (dtype == DType::Float || dtype == DType::Half || dtype == DType::BFloat16) &&
          key.dtype() == dtype && value.dtype() == dtype &&
          (!attn_mask || attn_mask->dtype() == dtype),
      Error::InvalidType,
      "found query %s, key %s, value %s, mask %s, expected one of float32, float16, bfloat16",
      query.describe().c_str(), key.describe().c_str(), value.describe().c_str(),
      attn_mask ? attn_mask->describe().c_str() : "none");
  const bool fits = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 &&
                    key.size(0) == query.size(0) && value.size(0) == query.size(0) &&
                    value.size(1) == key.size(1) && value.size(2) == key.size(2) &&
                    key.size(3) == query.size(3);
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found query %s, key %s, value %s, expected (batch, heads, queries or "
                         "keys, head dim) of equal batches and fitting sizes",
                         query.describe().c_str(), key.describe().c_str(),
                         value.describe().c_str());
  PTERON_CHECK_OR_RETURN(std::max(query.size(3), value.size(3)) <= kMaxItems, Error::NotSupported,
                         "found query %s, value %s, expected a head dim of at most %lld",
                         query.describe().c_str(), value.describe().c_str(),
                         static_cast<long long>(kMaxItems));
  const int64_t heads = query.size(1), shared = key.size(1);
  PTERON_CHECK_OR_RETURN(
      heads == shared || (enable_gqa && shared > 0 && heads % shared == 0), Error::InvalidArgument,
      "found %lld heads of queries, %lld of keys, expected equal numbers, or with enable_gqa a "
      "divisor",
      static_cast<long long>(heads), static_cast<long long>(shared));
  PTERON_CHECK_OR_RETURN(dropout_p == 0, Error::InvalidArgument, "found dropout_p %g, expected 0",
                         dropout_p);
  const int64_t head_dim = value.size(3), queries = query.size(2);
  TensorPtr mask;
  if (attn_mask) {
    const int64_t sizes[] = {query.size(0), heads, queries, key.size(2)};
    PTERON_CHECK_OR_RETURN(broadcasts_to(*attn_mask, sizes) && !is_causal, Error::InvalidArgument,
                           "found mask %s, is_causal %d, expected one of them, and a mask that "
                           "broadcasts to [%lld, %lld, %lld, %lld]",
                           attn_mask->describe().c_str(), is_causal,
                           static_cast<long long>(sizes[0]), static_cast<long long>(sizes[1]),
                           static_cast<long long>(sizes[2]), static_cast<long long>(sizes[3]));
    PTERON_ASSIGN_OR_RETURN(mask, broadcast_to(*attn_mask, "mask", sizes));
  }
  const int64_t sizes[] = {query.size(0), heads, queries, head_dim};
  const bool by_query = query.stride(1) < query.stride(2);  // heads next to head dim
  const int64_t strides[] = {queries * heads * head_dim, by_query ? head_dim : queries * head_dim,
                             by_query ? heads * head_dim : head_dim, 1};
  PTERON_ASSIGN_OR_RETURN(out, slim::make_tensor(sizes, strides, dtype, query.device()));
  if (out->numel() == 0) return Error::Ok;
  const double by_size = 1 / std::sqrt(static_cast<double>(query.size(3)));
  return kernels.attention(
      {query, key, value, mask.get(), is_causal, scale.value_or(by_size), *out});
}

}  // namespace pteron::aoti::ops
