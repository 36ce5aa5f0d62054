// The inputs, outputs and requirements of a method, read from the file without loading anything.
//
//   PTERON_ASSIGN_OR_RETURN(MethodMeta meta, program->method_meta("forward"));
//   for (const ValueMeta& input : meta.inputs) puts(input.describe().c_str());  // "float32[2, 3]"
//
// Plain values; spans and string views are borrowed from the Program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron {

// An input or output.
struct ValueMeta {
  // For an input the name of the module's argument ("ids"; nested: "batch_ids"); for an output its
  // key in the returned dict ("logits"), else "output_<index>". Unique among inputs and among
  // outputs. Empty in files of other writers.
  std::string name;

  ValueKind kind = ValueKind::None;

  // Only for kind Tensor.
  ScalarType dtype = ScalarType::Float;
  std::vector<int64_t> sizes;  // in elements; upper bounds unless dynamism is Static
  std::vector<uint8_t> dim_order;
  ShapeDynamism dynamism = ShapeDynamism::Static;
  Device device;
  size_t nbytes = 0;  // of the upper bound
  bool planned =
      false;  // uses the method's memory: an input is copied, an output is always allocated
  bool constant = false;  // an output whose bytes are in the file

  // Only for kinds Int, Double, Bool, String: the value at load. For an input, the value at export.
  std::variant<std::monostate, int64_t, double, bool, std::string> value;
  // An input that a run writes in place. Known only for a loaded method.
  bool written = false;
  // An input scalar that is symbolic, so that it may differ from `value`.
  bool symbolic = false;

  // "float32[2, <=128]", "Int 3": human-readable.
  std::string describe() const;
};

// A pool of planned memory.
struct PoolMeta {
  size_t nbytes = 0;
  Device device;
};

// A tensor whose contents outlive a run.
struct MutableBufferMeta {
  std::string name;  // fully qualified name in the model
  ScalarType dtype = ScalarType::Float;
  std::vector<int64_t> sizes;
  Device device;
  size_t nbytes = 0;
  bool has_initial_value = false;  // otherwise zeros
};

struct DelegateMeta {
  std::string_view backend_id;
  Span<const uint8_t> processed;  // what lowering returned
  std::vector<CompileSpec> compile_specs;
};

struct MethodMeta {
  std::string name;
  std::vector<ValueMeta> inputs;
  std::vector<ValueMeta> outputs;
  std::vector<PoolMeta> pools;
  std::vector<MutableBufferMeta> mutable_buffers;  // sorted by name
  std::vector<DelegateMeta> delegates;             // in table order, which is load order
  std::vector<std::string> operators;              // kernels it calls, as "aten::add.out", sorted
  size_t num_instructions = 0;
  size_t num_values = 0;
  size_t constant_nbytes = 0;  // of tensors in the constant segment and external ones, each once
  std::string input_tree;      // JSON of the pytree of the inputs; may be empty
  std::string output_tree;

  size_t planned_nbytes() const {
    size_t total = 0;
    for (const PoolMeta& pool : pools) total += pool.nbytes;
    return total;
  }
};

}  // namespace pteron
