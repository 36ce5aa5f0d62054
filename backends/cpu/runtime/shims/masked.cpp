#include "pteron/backends/aoti/ops/masked/masked.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/bytes.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  const bool* const mask = call.mask.data_as<const bool>();
  const int64_t count = std::count(mask, mask + call.mask.numel(), true);
  PTERON_CHECK_OR_RETURN(
      count <= call.source.numel(), Error::InvalidArgument,
      "found a mask of %lld elements that hold and source %s, expected no fewer elements in it",
      static_cast<long long>(count), call.source.describe().c_str());
  PTERON_DISPATCH_BYTES(call.out.item_size(), B, {
    B* const out = call.out.data_as<B>();
    const B* next = call.source.data_as<const B>();
    for (int64_t i = 0; i < call.out.numel(); ++i) {
      if (mask[i]) out[i] = *next++;
    }
  });
  return Error::Ok;
}

}  // namespace pteron::cpu
