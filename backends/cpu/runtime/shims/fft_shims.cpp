// Fourier transforms over any dimensions.
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/fft.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/rows.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

Result<std::vector<size_t>> read_dims(const SlimTensor& self, const int64_t* dim, int64_t length) {
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> list, aoti::list_argument(dim, length, "dim"));
  std::vector<size_t> dims;
  for (const int64_t d : list) {
    PTERON_ASSIGN_OR_RETURN(const size_t checked, aoti::dim_argument(d, self.dim()));
    PTERON_CHECK_OR_RETURN(self.dim() > 0 && self.size(checked) > 0 &&
                               std::find(dims.begin(), dims.end(), checked) == dims.end(),
                           Error::InvalidArgument,
                           "found dimension %lld of %s, expected each once and none of size 0",
                           static_cast<long long>(d), self.describe().c_str());
    dims.push_back(checked);
  }
  return dims;
}

// Outermost first.
void sort_by_stride(const SlimTensor& self, std::vector<size_t>::iterator begin,
                    std::vector<size_t>::iterator end) {
  std::stable_sort(begin, end, [&](size_t a, size_t b) { return self.stride(a) > self.stride(b); });
}

// Uninitialised, in the layout that torch's transforms give: dimensions that are not transformed
// outside, by their strides in `self`, then the transformed ones in the order of `dims`.
Result<TensorPtr> make_output(const SlimTensor& self, Span<const int64_t> sizes,
                              const std::vector<size_t>& dims, DType dtype) {
  std::vector<size_t> order;  // outermost first
  for (size_t d = 0; d < self.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  sort_by_stride(self, order.begin(), order.end());
  order.insert(order.end(), dims.begin(), dims.end());
  int64_t strides[slim::kMaxDims];
  int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = stride;
    stride *= std::max<int64_t>(sizes[*d], 1);
  }
  return slim::make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, Device{});
}

// Transforms all rows along `dim`, in place.
template <typename T>
void transform_dim(const SlimTensor& tensor, size_t dim, bool forward) {
  using Complex = std::complex<T>;
  const Rows rows(tensor, dim);
  const FftPlan<T> plan(rows.length(), forward);
  parallel_for(rows.count(), 4096 / std::max<int64_t>(rows.length(), 1) + 1,
               [&](int64_t begin, int64_t end) {
                 Scratch<Complex> row(rows.length()), work(plan.work_size());
                 for (int64_t l = begin; l < end; ++l) {
                   Complex* data = tensor.data_as<Complex>() + rows.offset(l);
                   for (int64_t i = 0; i < rows.length(); ++i) row[i] = data[i * rows.stride()];
                   plan.run(row.data(), work.data());
                   for (int64_t i = 0; i < rows.length(); ++i) data[i * rows.stride()] = row[i];
                 }
               });
}

// Normalization 0: none; 1: by the root of the number of elements; 2: by that number.
template <typename T>
void transform(const SlimTensor& tensor, const std::vector<size_t>& dims, int64_t normalization,
               bool forward) {
  double count = 1;
  for (const size_t dim : dims) {
    transform_dim<T>(tensor, dim, forward);
    count *= static_cast<double>(tensor.size(dim));
  }
  if (normalization == 0) return;
  const T scale = static_cast<T>(normalization == 1 ? 1 / std::sqrt(count) : 1 / count);
  // Without gaps, so every element of the storage is one of the tensor.
  auto* data = tensor.data_as<std::complex<T>>();
  for (int64_t i = 0; i < tensor.numel(); ++i) data[i] *= scale;
}

Error check_normalization(int64_t normalization) {
  PTERON_CHECK_OR_RETURN(normalization >= 0 && normalization <= 2, Error::InvalidArgument,
                         "found normalization %lld, expected 0, 1 or 2",
                         static_cast<long long>(normalization));
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu__fft_c2c)
(AtenTensorHandle self, const int64_t* dim, int64_t dim_length, int64_t normalization,
 int32_t forward, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu__fft_c2c", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_RETURN_IF_ERROR(check_normalization(normalization));
    PTERON_ASSIGN_OR_RETURN(std::vector<size_t> dims, read_dims(*self, dim, dim_length));
    const DType dtype = self->dtype();
    PTERON_CHECK_OR_RETURN(dtype == DType::ComplexFloat || dtype == DType::ComplexDouble,
                           Error::NotSupported, "found self %s, expected complex64 or complex128",
                           self->describe().c_str());
    sort_by_stride(*self, dims.begin(), dims.end());
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_output(*self, self->sizes(), dims, dtype));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
    if (dtype == DType::ComplexFloat) {
      transform<float>(*out, dims, normalization, forward != 0);
    } else {
      transform<double>(*out, dims, normalization, forward != 0);
    }
    *ret = out.release();
    return Error::Ok;
  });
}

// Forward, of real numbers; `onesided` keeps the half of the last dimension that tells the other.
PTERON_AOTI_SHIM(AOTITorchError, cpu__fft_r2c)
(AtenTensorHandle self, const int64_t* dim, int64_t dim_length, int64_t normalization,
 int32_t onesided, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu__fft_r2c", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_RETURN_IF_ERROR(check_normalization(normalization));
    PTERON_ASSIGN_OR_RETURN(std::vector<size_t> dims, read_dims(*self, dim, dim_length));
    const bool is_float = self->dtype() == DType::Float;
    PTERON_CHECK_OR_RETURN(
        (is_float || self->dtype() == DType::Double) && !dims.empty(), Error::NotSupported,
        "found self %s and %zu dimensions, expected float32 or float64 and at least one",
        self->describe().c_str(), dims.size());
    // The last one given is the one that is halved, and stays last.
    sort_by_stride(*self, dims.begin(), dims.end() - 1);
    const DType dtype = is_float ? DType::ComplexFloat : DType::ComplexDouble;
    PTERON_ASSIGN_OR_RETURN(TensorPtr full, make_output(*self, self->sizes(), dims, dtype));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*full, *self));
    if (is_float) {
      transform<float>(*full, dims, normalization, true);
    } else {
      transform<double>(*full, dims, normalization, true);
    }
    if (onesided) {
      int64_t sizes[slim::kMaxDims];
      std::copy(self->sizes().begin(), self->sizes().end(), sizes);
      sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
      const Span<const int64_t> half(sizes, self->dim());
      PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_output(*self, half, dims, dtype));
      SlimTensor part;
      PTERON_RETURN_IF_ERROR(part.set(full->storage(), half, full->strides(), 0, dtype));
      PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, part));
      full = std::move(out);
    }
    *ret = full.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cpu
