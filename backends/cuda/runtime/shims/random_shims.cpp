// randint_low_out: the seeds from which generated code draws all its random numbers.
#include <algorithm>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/random.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;

PTERON_AOTI_SHIM(AOTITorchError, cuda_randint_low_out)(AtenTensorHandle out, int64_t low,
                                                       int64_t high, const int64_t* size,
                                                       int64_t size_len_) {
  return aoti::c_boundary("aoti_torch_cuda_randint_low_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_tensor(out, "out"));
    PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> sizes,
                            aoti::list_argument(size, size_len_, "size"));
    PTERON_CHECK_OR_RETURN(
        sizes.size() == out->dim() && std::equal(sizes.begin(), sizes.end(), out->sizes().begin()),
        Error::InvalidArgument, "found out %s, expected the sizes of the argument size",
        out->describe().c_str());
    PTERON_CHECK_OR_RETURN(
        out->is_contiguous() && !slim::is_complex(out->dtype()), Error::InvalidArgument,
        "found out %s, expected a contiguous real tensor", out->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return fill_random(RandomSequence::of_process().next(), low, high,
                       static_cast<ScalarType>(out->dtype()), out->data(), out->numel(),
                       scope.stream());
  });
}

}  // namespace pteron::cuda
