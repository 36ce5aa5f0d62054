// Inputs of a method from a file of tensors, and its outputs back into one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/tools/runner/safetensors.h"

namespace pteron::runner {

// Values to set as inputs, and the memory that they lie in.
class Inputs final {
 public:
  // From `tensors`: by number where all are called input_<number>, otherwise in their order.
  // InvalidArgument says how many and which are needed.
  static Result<Inputs> from_tensors(const MethodMeta& meta,
                                     const std::vector<NamedTensor>& tensors);
  // Zeros of the largest sizes; scalars as exported.
  static Result<Inputs> zeros(const MethodMeta& meta);

  Span<const EValue> values() const { return {values_.data(), values_.size()}; }

 private:
  Error add(size_t index, const ValueMeta& meta, const View* source);

  std::vector<EValue> values_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// Memory for the outputs that the method has none for; must outlive its runs.
Result<std::vector<std::unique_ptr<std::byte[]>>> provide_output_memory(Method& method);

// All outputs of the last run: tensors and scalars as tensors called output_<i> (items of a list
// output_<i>_<j>), strings as metadata; None is left out.
Error write_outputs(const Method& method, AtomicFile& file);

}  // namespace pteron::runner
