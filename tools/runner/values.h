// Converts tensors of a file to inputs of a method, and outputs to tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/tools/runner/safetensors.h"

namespace pteron::runner {

// Input values and their memory.
class Inputs final {
 public:
  // From `tensors`: by index if all are named input_<index>, otherwise in order. InvalidArgument
  // says which are needed.
  static Result<Inputs> from_tensors(const MethodMeta& meta,
                                     const std::vector<NamedTensor>& tensors);
  // Zeros with the largest sizes; scalars as exported.
  static Result<Inputs> zeros(const MethodMeta& meta);

  Span<const EValue> values() const { return {values_.data(), values_.size()}; }

 private:
  Error add(size_t index, const ValueMeta& meta, const View* source);

  std::vector<EValue> values_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// Memory for unplanned outputs; must outlive the runs.
Result<std::vector<std::unique_ptr<std::byte[]>>> provide_output_memory(Method& method);

// All outputs of the last run: tensors and scalars as tensors named output_<i> (elements of a list
// output_<i>_<j>), strings as metadata; None is omitted.
Error write_outputs(const Method& method, AtomicFile& file);

}  // namespace pteron::runner
