// Checks a partition's tensors against what its code was compiled for.
//
//   PTERON_ASSIGN_OR_RETURN(Contract contract, Contract::make(metadata));
//   contract.begin();
//   for (i ...) PTERON_RETURN_IF_ERROR(contract.check_input(i, tensor, &fits));
//   PTERON_RETURN_IF_ERROR(contract.check_together());
//   ... run ...
//   for (i ...) PTERON_RETURN_IF_ERROR(contract.check_output(i, dtype, sizes));
//
// Compiled code has no checks: a wrong size would read out of bounds. Sizes with one symbol must
// agree over all inputs of a run. Checking allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron::aoti {

class Contract final {
 public:
  // No contract: everything passes, with any strides. For files without metadata.
  Contract() = default;
  // NotSupported: a non-dense layout with dynamic sizes.
  static Result<Contract> make(const Metadata& metadata);

  bool is_empty() const { return !known_; }
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  bool is_mutated(size_t input) const { return known_ && inputs_[input].mutated; }
  slim::DType input_dtype(size_t input) const { return inputs_[input].dtype; }
  size_t input_rank(size_t input) const { return inputs_[input].dims.size(); }

  // Starts a run: clears the symbols' values.
  void begin();

  // `strides` (kMaxDims entries) receives the strides that the code expects, `fits` whether the
  // tensor has them. InvalidType: dtype; InvalidArgument: rank or a size, with the violated rule.
  Error check_input(size_t i, const Tensor& tensor, int64_t* strides, bool* fits);

  // Call after all inputs of a run. InvalidArgument: a violated relation between sizes.
  Error check_together() const {
    return __builtin_expect(conditions_.empty(), 1) ? Error(Error::Ok) : check_conditions();
  }

  // Call after the inputs of the same run.
  Error check_output(size_t i, slim::DType dtype, Span<const int64_t> sizes) const;

 private:
  struct TensorRule {
    slim::DType dtype;
    bool mutated;
    bool fixed_strides;  // `strides` are final: every size is static
    std::vector<DimContract> dims;
    std::vector<int64_t> strides;
    std::vector<uint8_t> order;  // dimensions, outermost first
  };

  static Result<TensorRule> make_rule(const TensorContract& contract);
  Error check_conditions() const;
  bool compute(const std::vector<int64_t>& code, int64_t* result) const;
  Error check_size(const DimContract& dim, int64_t size, int64_t* symbol) const;
  Error mismatch(const char* kind, size_t i, const TensorRule& rule, const std::string& found,
                 const Error& why) const;

  bool known_ = false;
  std::vector<TensorRule> inputs_;
  std::vector<TensorRule> outputs_;
  struct JointRule {
    std::string relation;
    std::vector<int64_t> left;
    std::vector<int64_t> right;
    std::string text;
  };
  std::vector<JointRule> conditions_;
  std::vector<int64_t> symbols_;  // values of this run; -1 where not known yet
};

}  // namespace pteron::aoti
