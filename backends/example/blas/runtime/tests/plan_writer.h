// Plans for tests, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/backends/example/blas/schema/plan_generated.h"

namespace pteron::blas {

// PlanWriter plan(2);                        // two inputs
// plan.add(plan.argument(0), plan.argument(1));
// plan.store(0, 2);                          // the product is the output
// std::vector<uint8_t> bytes = plan.finish();
class PlanWriter {
 public:
  using Operand = flatbuffers::Offset<schema::Operand>;

  explicit PlanWriter(uint32_t num_inputs) : num_inputs_(num_inputs) {}

  Operand argument(uint32_t i) { return operand(schema::Source::Argument, i); }
  Operand product(uint32_t i) { return operand(schema::Source::Product, i); }
  Operand constant(const std::string& key, std::vector<int64_t> sizes) {
    constants_.push_back(schema::CreateConstantDirect(builder_, key.c_str(), &sizes));
    return operand(schema::Source::Constant, static_cast<uint32_t>(constants_.size() - 1));
  }
  Operand operand(schema::Source source, uint32_t i) {
    return schema::CreateOperand(builder_, source, i);
  }

  void add(Operand left, Operand right, Operand bias = 0, bool right_transposed = false,
           float alpha = 1, float beta = 1) {
    products_.push_back(
        schema::CreateProduct(builder_, left, right, bias, right_transposed, alpha, beta));
  }
  void store(uint32_t product, uint32_t argument) {
    stores_.push_back(schema::CreateStore(builder_, product, argument));
  }

  std::vector<uint8_t> finish() {
    schema::FinishPlanBuffer(builder_, schema::CreatePlanDirect(builder_, num_inputs_, &constants_,
                                                                &products_, &stores_));
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  flatbuffers::FlatBufferBuilder builder_;
  uint32_t num_inputs_;
  std::vector<flatbuffers::Offset<schema::Constant>> constants_;
  std::vector<flatbuffers::Offset<schema::Product>> products_;
  std::vector<flatbuffers::Offset<schema::Store>> stores_;
};

}  // namespace pteron::blas
