// What a BLAS delegate runs, read from its processed bytes and checked.
//
//   PTERON_ASSIGN_OR_RETURN(const Plan plan, parse_plan(processed));
//   for (const Product& product : plan.products) ...
//
// After parse_plan every index is in range and every step uses only earlier ones. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::blas {

enum class Source : uint8_t { Argument, Product, Constant };

// Where a matrix comes from.
struct Operand {
  Source source;
  size_t index;
};

// A row-major float32 tensor of the model, in the named blob `key`.
struct Constant {
  std::string key;
  std::vector<int64_t> sizes;
};

// product = alpha * left @ right + beta * bias; schema/plan.fbs has the shapes.
struct Product {
  Operand left;
  Operand right;
  std::optional<Operand> bias;
  bool right_transposed;
  float alpha;
  float beta;
};

// A product that leaves the delegate: through an output, or into an input that it changes.
struct Store {
  size_t product;
  size_t argument;
};

struct Plan {
  size_t num_inputs;
  size_t num_arguments;  // inputs and outputs
  std::vector<Constant> constants;
  std::vector<Product> products;
  std::vector<Store> stores;
};

// InvalidProgram says what is wrong; `processed` may be any bytes.
Result<Plan> parse_plan(Span<const uint8_t> processed);

}  // namespace pteron::blas
