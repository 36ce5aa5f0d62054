#include "pteron/runtime/kernel/kernel_context.h"

#include <cstdlib>

namespace pteron {
namespace {

constexpr size_t kScratchAlignment = 64;

}  // namespace

void KernelContext::Free::operator()(void* pointer) const { std::free(pointer); }

Result<void*> KernelContext::scratch(size_t nbytes) {
  if (nbytes > scratch_nbytes_ || !scratch_) {
    const size_t rounded = (nbytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    PTERON_CHECK_OR_RETURN(rounded >= nbytes, Error::MemoryAllocationFailed,
                           "%zu bytes of scratch memory are more than can be counted", nbytes);
    scratch_.reset();
    scratch_nbytes_ = 0;
    scratch_.reset(std::aligned_alloc(kScratchAlignment, rounded ? rounded : kScratchAlignment));
    PTERON_CHECK_OR_RETURN(scratch_, Error::MemoryAllocationFailed,
                           "no %zu bytes of scratch memory for a kernel", nbytes);
    scratch_nbytes_ = rounded;
  }
  return scratch_.get();
}

}  // namespace pteron
