// One partition, loaded: a plan, the weights that it names, and memory for what lies between.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pteron/backends/example/blas/runtime/contiguous.h"
#include "pteron/backends/example/blas/runtime/plan.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron::blas {

class BlasDelegate final : public Delegate {
 public:
  // Finds the weights in `named_data`, where they stay. NotFound: there is no blob of that name;
  // InvalidProgram: a blob has another size than its weight.
  static Result<std::unique_ptr<Delegate>> load(Plan plan, const NamedDataMap& named_data);

  Error execute(BackendExecutionContext& context, Span<EValue* const> arguments) override;

 private:
  explicit BlasDelegate(Plan plan);

  Error add_constant(const Constant& constant, const NamedDataMap& named_data);
  Error bind(Span<EValue* const> arguments);
  Error run(size_t step, Span<EValue* const> arguments);
  Error store(const Store& store, Span<EValue* const> arguments) const;
  const Tensor& find(const Operand& operand) const;

  const Plan plan_;
  std::vector<Tensor> constants_;
  // Of one call; kept, so that nothing is allocated from the second call of a size on.
  std::vector<std::optional<Tensor>> inputs_;
  std::vector<std::optional<Tensor>> products_;
  std::vector<FloatBuffer> input_copies_;
  std::vector<FloatBuffer> product_buffers_;
  // The output that a step may write into directly, as an argument; 0 if none (inputs come first).
  std::vector<size_t> direct_output_;
};

}  // namespace pteron::blas
