// Running sums, products, extremes along a dimension. Results are row-major.
#include <cmath>
#include <type_traits>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/rows.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

// Wider than the elements: float sums are kept in double, narrower ones in float.
template <typename T>
using running_t = std::conditional_t<std::is_same_v<T, float>, double, slim::accumulate_t<T>>;

// out[i] = step(out[i - 1], in[i]), from `start`.
template <typename T, typename Step>
void scan(const SlimTensor& tensor, size_t dim, running_t<T> start, const Step& step) {
  const Rows rows(tensor, dim);
  parallel_for(rows.count(), rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t l = begin; l < end; ++l) {
      T* row = tensor.data_as<T>() + rows.offset(l);
      running_t<T> running = start;
      for (int64_t i = 0; i < rows.length(); ++i) {
        T& element = row[i * rows.stride()];
        running = step(running, static_cast<running_t<T>>(element));
        element = static_cast<T>(running);
      }
    }
  });
}

// A row-major copy to scan in place: as `dtype` if it is given, else integers as int64.
Result<TensorPtr> scan_input(AtenTensorHandle self, const int32_t* dtype, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  DType type = self->dtype();
  if (dtype) {
    PTERON_ASSIGN_OR_RETURN(type, aoti::dtype_argument(*dtype));
  } else if (!slim::is_floating_point(type) && !slim::is_complex(type)) {
    type = DType::Long;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, slim::make_tensor(self->sizes(), type));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, *self));
  return copy;
}

// Integers wrap.
template <typename T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return static_cast<T>(a + b);
  }
}
template <typename T>
T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return static_cast<T>(a * b);
  }
}

template <typename T>
void scan_extremes(const SlimTensor& values, const SlimTensor& indices, size_t dim, bool greatest) {
  const Rows rows(values, dim);  // both row-major
  parallel_for(rows.count(), rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t l = begin; l < end; ++l) {
      T* row = values.data_as<T>() + rows.offset(l);
      int64_t* index = indices.data_as<int64_t>() + rows.offset(l);
      int64_t best = 0;
      for (int64_t i = 0; i < rows.length(); ++i) {
        // The last of equal ones; a NaN stays.
        using Wide = slim::accumulate_t<T>;
        const T value = row[i * rows.stride()], held = row[best * rows.stride()];
        const bool better = greatest ? static_cast<Wide>(value) >= static_cast<Wide>(held)
                                     : static_cast<Wide>(value) <= static_cast<Wide>(held);
        if (is_nan(value) || (!is_nan(held) && better)) best = i;
        row[i * rows.stride()] = row[best * rows.stride()];
        index[i * rows.stride()] = best;
      }
    }
  });
}

Error cumulative_extreme(AtenTensorHandle self, int64_t dim, bool greatest,
                         AtenTensorHandle* values, AtenTensorHandle* indices) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(values, "values"));
  PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
  PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, slim::make_tensor(self->sizes(), self->dtype()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr extremes, slim::make_tensor(self->sizes(), DType::Long));
  bool done = false;
  PTERON_DISPATCH_REAL(self->dtype(), T, {
    scan_extremes<T>(*out, *extremes, d, greatest);
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(self);
  *values = out.release();
  *indices = extremes.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_cumsum)
(AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_cumsum", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, scan_input(self, dtype, ret));
    PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
    bool done = false;
    PTERON_DISPATCH_REAL(out->dtype(), T, {
      using Running = running_t<T>;
      scan<T>(*out, d, Running(0),
              [](Running a, Running b) { return wrapping_add<Running>(a, b); });
      done = true;
    });
    if (!done) return PTERON_CPU_NO_DTYPE(out);
    *ret = out.release();
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_cumprod)
(AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_cumprod", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, scan_input(self, dtype, ret));
    PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
    bool done = false;
    PTERON_DISPATCH_REAL(out->dtype(), T, {
      using Running = running_t<T>;
      scan<T>(*out, d, Running(1),
              [](Running a, Running b) { return wrapping_multiply<Running>(a, b); });
      done = true;
    });
    if (!done) return PTERON_CPU_NO_DTYPE(out);
    *ret = out.release();
    return Error::Ok;
  });
}

// log(exp(x0) + ... + exp(xi)), without leaving the range of the numbers.
PTERON_AOTI_SHIM(AOTITorchError, cpu_logcumsumexp)
(AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_logcumsumexp", [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, scan_input(self, nullptr, ret));
    PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
    bool done = false;
    PTERON_DISPATCH_FLOATING(out->dtype(), T, {
      using Running = running_t<T>;
      scan<T>(*out, d, -std::numeric_limits<Running>::infinity(), [](Running a, Running b) {
        if (a != a || b != b) return a + b;
        const Running high = std::max(a, b), low = std::min(a, b);
        if (std::isinf(high)) return high;
        return high + std::log1p(std::exp(low - high));
      });
      done = true;
    });
    if (!done) return PTERON_CPU_NO_DTYPE(out);
    *ret = out.release();
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_cummax)
(AtenTensorHandle self, int64_t dim, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_cummax",
                    [&] { return cumulative_extreme(self, dim, true, values, indices); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_cummin)
(AtenTensorHandle self, int64_t dim, AtenTensorHandle* values, AtenTensorHandle* indices) {
  return c_boundary("aoti_torch_cpu_cummin",
                    [&] { return cumulative_extreme(self, dim, false, values, indices); });
}

}  // namespace pteron::cpu
