// What a method takes, returns and needs, read from the file without loading anything.
//
//   PTERON_ASSIGN_OR_RETURN(MethodMeta meta, program->method_meta("forward"));
//   for (const ValueMeta& input : meta.inputs) puts(input.describe().c_str());  // "float32[2, 3]"
//
// Plain values; spans and string views in them are borrowed from the Program and live as long.
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

// An input or output, or a slot that becomes one.
struct ValueMeta {
  // Of an input that of the module's argument ("ids"; of what is nested "batch_ids"); of an output the
  // keys of the dict that it was returned in ("logits"), else "output_<index>". No two inputs, and no
  // two outputs, have the same. Empty in files of other writers.
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
      false;  // has memory of the method: an input is copied in, an output is always there
  bool constant = false;  // an output whose bytes lie in the file

  // Only for kinds Int, Double, Bool, String: what the slot holds at load. Of an input, the value
  // it was exported with.
  std::variant<std::monostate, int64_t, double, bool, std::string> value;
  // An input whose bytes, which are the caller's, a run changes. Known of a loaded method only.
  bool written = false;
  // An input scalar that the program reads, so that it may differ from `value`.
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
  std::string name;  // fully qualified, as the model calls it
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
  std::string input_tree;      // JSON of the tree that the flat inputs were made from; may be empty
  std::string output_tree;

  size_t planned_nbytes() const {
    size_t total = 0;
    for (const PoolMeta& pool : pools) total += pool.nbytes;
    return total;
  }
};

}  // namespace pteron
