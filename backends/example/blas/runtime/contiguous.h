// Row-major copies of tensors that are laid out otherwise, and memory that is kept for them.
//
//   FloatBuffer buffer;
//   PTERON_ASSIGN_OR_RETURN(const Tensor rows, contiguous(tensor, buffer));   // no copy if it is
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron::blas {

// Memory that grows to the largest size asked for and is then allocated no more.
class FloatBuffer final {
 public:
  // Contents are undefined. MemoryAllocationFailed leaves the buffer empty.
  Result<float*> reserve(int64_t count);

 private:
  std::unique_ptr<float[]> data_;
  int64_t capacity_ = 0;
};

// A float32 tensor of these sizes over `buffer`, which must outlive it. Contents are undefined.
Result<Tensor> make_tensor(Span<const int64_t> sizes, FloatBuffer& buffer);

// Whether the last dimension lies innermost, and so on to the first.
bool is_contiguous(const Tensor& tensor);

// `tensor` itself if it is contiguous, else a copy in `buffer`, which must outlive it.
Result<Tensor> contiguous(const Tensor& tensor, FloatBuffer& buffer);

// Copies element by element between float32 tensors of equal sizes, whatever their layouts.
void copy_elements(const Tensor& from, const Tensor& to);

}  // namespace pteron::blas
