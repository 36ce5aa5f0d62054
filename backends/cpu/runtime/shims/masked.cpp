#include "pteron/backends/aoti/ops/masked/masked.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/bytes.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  // Bytes, of which all but 0 hold: as a bool, 2 is not equal to true.
  const auto* const mask = call.mask.data_as<const uint8_t>();
  const int64_t numel = call.mask.numel();
  const int64_t count = numel - std::count(mask, mask + numel, 0);
  PTERON_CHECK_OR_RETURN(
      count <= call.source.numel(), Error::InvalidArgument,
      "found a mask of %lld elements that hold and source %s, expected no fewer elements in it",
      static_cast<long long>(count), call.source.describe().c_str());
  PTERON_DISPATCH_BYTES(call.out.item_size(), B, {
    B* const out = call.out.data_as<B>();
    const B* next = call.source.data_as<const B>();
    for (int64_t i = 0; i < numel; ++i) {
      if (mask[i] != 0) out[i] = *next++;
    }
  });
  return Error::Ok;
}

}  // namespace pteron::cpu
