// One call of a shim with the arguments of a case, and what became of its tensors.
//
//   Call call(device, case["arguments"]);
//   int32_t status = shim(call);                                 // binding.h
//   std::vector<Scalar> elements = call.read(*call.result(0));
//
// A tensor of a case is an object,
//
//   {"dtype": "float32", "sizes": [2, 3], "strides": [3, 1], "offset": 0, "data": [...]}
//
// with its elements row-major: numbers, [real, imaginary], "nan", "inf" or "-inf". Without strides
// it is row-major. One number of data stands for all. Instead of data,
// "formula": [a, b, m, offset, scale] has element i be ((a i + b) mod m + offset) scale, and "of": k has it lie in the storage of argument k. What strides and offset skip holds NaN
// or 113, so that reading or writing it shows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti::conformance {

using Json = nlohmann::json;
using slim::Scalar;

// All elements of a tensor of a case, as its dtype holds them; row-major.
std::vector<Scalar> elements_of(const Json& tensor);
slim::DType dtype_of(const Json& tensor);
std::vector<int64_t> strides_of(const Json& tensor);

// A number of a case: one of JSON, "nan", "inf" or "-inf", or the name of a dtype.
template <typename T>
T number(const Json& value) {
  if (!value.is_string()) return value.get<T>();
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(dtype_of({{"dtype", value}}));
  } else {
    return static_cast<T>(std::strtod(value.get<std::string>().c_str(), nullptr));
  }
}

class Call final {
 public:
  Call(Device device, const Json& arguments) : device_(device), arguments_(arguments) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // For binding.h: the next argument of the case, a tensor (null for null) for a part of it, and a
  // place for a result.
  const Json& next();
  AtenTensorHandle tensor(const Json& value);
  AtenTensorHandle* add_result();
  // A copy that lives as long as the call.
  template <typename T>
  T* keep(T value) {
    auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return kept.get();
  }

  Device device() const { return device_; }
  size_t num_results() const { return results_.size(); }
  slim::SlimTensor* result(size_t i) const { return *results_[i]; }
  // The first tensor of argument `i`, or null.
  slim::SlimTensor* argument(size_t i) const { return argument_tensors_[i]; }

  std::vector<Scalar> read(const slim::SlimTensor& tensor) const;
  // True if nothing was written but elements of argument `written` (-1: of none).
  bool wrote_only(int written) const;

  ~Call();

 private:
  struct Memory {
    slim::TensorPtr bytes;  // all of a storage
    std::vector<unsigned char> before;
  };
  std::vector<unsigned char> read_bytes(const slim::SlimTensor& tensor) const;

  Device device_;
  const Json& arguments_;
  size_t position_ = 0;
  std::vector<slim::SlimTensor*> argument_tensors_;
  std::vector<slim::TensorPtr> tensors_;
  std::vector<Memory> memory_;
  std::vector<AtenTensorHandle*> results_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace pteron::aoti::conformance
