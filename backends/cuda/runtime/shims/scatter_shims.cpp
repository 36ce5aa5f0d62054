// scatter_reduce_two_out.
#include <cuda_runtime_api.h>

#include <cstring>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/scatter.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using slim::DType;
using slim::SlimTensor;

Result<Reduction> parse_reduction(const char* name) {
  constexpr struct {
    const char* name;
    Reduction reduction;
  } kKnown[] = {{"sum", Reduction::kSum},
                {"prod", Reduction::kProd},
                {"mean", Reduction::kMean},
                {"amax", Reduction::kMax},
                {"amin", Reduction::kMin}};
  for (const auto& known : kKnown) {
    if (name && std::strcmp(name, known.name) == 0) return known.reduction;
  }
  return make_error(Error::InvalidArgument,
                    "found reduce %s, expected sum, prod, mean, amax or amin",
                    name ? name : "null");
}

Error check_scatter(const SlimTensor* out, const SlimTensor* self, const SlimTensor* index,
                    const SlimTensor* src, size_t dim) {
  const auto all = [&] {
    return describe({{"out", out}, {"self", self}, {"index", index}, {"src", src}});
  };
  PTERON_CHECK_OR_RETURN(index->dtype() == DType::Long, Error::InvalidType,
                         "found %s, expected an index of int64", all().c_str());
  PTERON_CHECK_OR_RETURN(out->dtype() == self->dtype() && out->dtype() == src->dtype(),
                         Error::InvalidType, "found %s, expected one dtype", all().c_str());
  bool fits = out->dim() == self->dim() && out->dim() == index->dim() && out->dim() == src->dim();
  for (size_t i = 0; i < out->dim() && fits; ++i) {
    fits = out->size(i) == self->size(i) && index->size(i) <= src->size(i) &&
           (i == dim || index->size(i) <= out->size(i));
  }
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found %s, expected out and self alike and an index no larger than src, "
                         "nor than out but in dimension %zu",
                         all().c_str(), dim);
  return check_writable(*out, "out");
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_scatter_reduce_two_out)
(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
 AtenTensorHandle src, const char* reduce, int32_t include_self) {
  return aoti::c_boundary("aoti_torch_cuda_scatter_reduce_two_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(
        check_tensors({{"out", out}, {"self", self}, {"index", index}, {"src", src}}));
    PTERON_ASSIGN_OR_RETURN(const size_t at, aoti::dim_argument(dim, out->dim()));
    PTERON_RETURN_IF_ERROR(check_scatter(out, self, index, src, at));
    ScatterReduce scatter;
    PTERON_ASSIGN_OR_RETURN(scatter.reduction, parse_reduction(reduce));
    scatter.dtype = static_cast<ScalarType>(out->dtype());
    scatter.include_self = include_self != 0;
    scatter.dim = static_cast<int>(at);
    scatter.out_dim_size = out->dim() == 0 ? 1 : out->size(at);
    for (size_t i = 0; i < out->dim(); ++i) {
      scatter.add_dim(index->size(i), out->stride(i), index->stride(i), src->stride(i));
    }
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    if (out->data() != self->data()) {
      PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self, true));
    }
    slim::StorageRef counts;
    if (scatter.reduction == Reduction::kMean) {
      PTERON_ASSIGN_OR_RETURN(const size_t reach,
                              slim::storage_nbytes(out->sizes(), out->strides(), DType::Int));
      PTERON_ASSIGN_OR_RETURN(counts, allocate_scratch(reach, scope.device()));
      PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counts->data, 0, reach, scope.stream()),
                                  "counting scattered elements");
    }
    return scatter_reduce(scatter, out->data(), index->data_as<int64_t>(), src->data(),
                          counts ? static_cast<int32_t*>(counts->data) : nullptr, scope.stream());
  });
}

}  // namespace pteron::cuda
