// Random integers. The distributions are torch's, the draws are not.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/random.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

// A row-major int64 tensor, as `dtype`.
Result<TensorPtr> converted(const std::vector<int64_t>& values, Span<const int64_t> sizes,
                            DType dtype) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, slim::make_tensor(sizes, dtype));
  PTERON_ASSIGN_OR_RETURN(TensorPtr wide, slim::make_tensor(sizes, DType::Long));
  std::copy(values.begin(), values.end(), wide->data_as<int64_t>());
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *wide));
  return out;
}

}  // namespace

// Uniform in [low, high).
PTERON_AOTI_SHIM(AOTITorchError, cpu_randint_low_out)
(AtenTensorHandle out, int64_t low, int64_t high, const int64_t* size, int64_t size_length) {
  return c_boundary("aoti_torch_cpu_randint_low_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(out, "out"));
    PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> sizes,
                            aoti::list_argument(size, size_length, "size"));
    PTERON_CHECK_OR_RETURN(low < high, Error::InvalidArgument,
                           "found low %lld and high %lld, expected low < high",
                           static_cast<long long>(low), static_cast<long long>(high));
    const bool same =
        sizes.size() == out->dim() && std::equal(sizes.begin(), sizes.end(), out->sizes().begin());
    PTERON_CHECK_OR_RETURN(same, Error::InvalidArgument, "found out %s, expected the sizes in size",
                           out->describe().c_str());
    RandomStream stream = next_random_stream();
    const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    std::vector<int64_t> values(static_cast<size_t>(out->numel()));
    for (int64_t& value : values) {
      value = static_cast<int64_t>(static_cast<uint64_t>(low) + stream.below(count));
    }
    PTERON_ASSIGN_OR_RETURN(TensorPtr drawn, converted(values, sizes, out->dtype()));
    return slim::copy_tensor(*out, *drawn);
  });
}

// The numbers from 0 to below n, in random order; int64 unless `dtype` says otherwise.
PTERON_AOTI_SHIM(AOTITorchError, cpu_randperm)
(int64_t n, int32_t* dtype, int32_t*, int32_t*, int32_t, int32_t*, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_randperm", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(n >= 0 && n <= (int64_t{1} << 40), Error::InvalidArgument,
                           "found n %lld, expected 0 to 2^40", static_cast<long long>(n));
    DType type = DType::Long;
    if (dtype) {
      PTERON_ASSIGN_OR_RETURN(type, aoti::dtype_argument(*dtype));
    }
    std::vector<int64_t> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), int64_t{0});
    RandomStream stream = next_random_stream();
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[stream.below(i)]);
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, converted(values, Span<const int64_t>(&n, 1), type));
    *ret = out.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cpu
