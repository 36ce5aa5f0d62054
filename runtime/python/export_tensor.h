// Output tensors owned by Python: our memory as tensors of the caller's library.
//
//   OwnedTensorPtr tensor = OwnedTensor::allocate(output);  // same dtype, sizes, layout, device
//   tensor->copy_from(output);  // or compute into it: method.set_output_data(...)
//   Object result = to_python(std::move(tensor), style);
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/python/dlpack.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

// One allocation: DLPack's struct, shape, strides and, on the CPU, the data, aligned to 64.
class OwnedTensor final {
 public:
  struct Delete {
    void operator()(OwnedTensor* tensor) const { release(tensor); }
  };

  // Shaped as `tensor`; contents unspecified. MemoryAllocationFailed; NotFound: no allocator for
  // its device.
  static Result<std::unique_ptr<OwnedTensor, Delete>> allocate(const Tensor& tensor);
  static void release(OwnedTensor* tensor);

  // Bytes of a tensor of the same shape and device.
  Error copy_from(const Tensor& tensor, Wait wait = Wait::Yes);

  void* data() const { return managed_.tensor.data; }
  ScalarType dtype() const { return dtype_; }
  pteron::Device device() const { return device_; }
  size_t nbytes() const { return nbytes_; }
  const dlpack::Tensor& tensor() const { return managed_.tensor; }

  // The DLPack struct; its deleter releases this.
  dlpack::ManagedTensorVersioned* managed() { return &managed_; }

 private:
  OwnedTensor() = default;

  dlpack::ManagedTensorVersioned managed_{};
  std::array<int64_t, kMaxTensorDims> shape_;
  std::array<int64_t, kMaxTensorDims> strides_;
  ScalarType dtype_ = ScalarType::Float;
  pteron::Device device_;
  size_t nbytes_ = 0;
  StorageRef storage_;  // on a device
};
using OwnedTensorPtr = std::unique_ptr<OwnedTensor, OwnedTensor::Delete>;

// Which library's tensors to return.
struct TensorStyle {
  const dlpack::ExchangeApi* api = nullptr;  // of the type to return, if any
  bool torch = false;                        // otherwise: torch without an exchange API
};

// A tensor of that library; else a NumPy array; if NumPy is missing or lacks the dtype, a
// DlpackArray. Device tensors are valid on the calling thread's current stream; a DlpackArray makes
// its consumer's stream wait. Needs the GIL; throws.
Object to_python(OwnedTensorPtr tensor, const TensorStyle& style);

// torch's style if torch is loaded, otherwise the default. Never loads it.
TensorStyle style_of_process();

}  // namespace pteron::python
