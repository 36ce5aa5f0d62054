// Interprets the storage fields of a tensor in a file.
//
//   const TensorStorage storage = TensorStorage::of(*value->value_as_Tensor());
//   if (storage.is_mutable_buffer()) ...
//
// Borrows names from the file. Plain values.
#pragma once

#include <cstdint>
#include <string_view>

#include "pteron/runtime/backend/device_map.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

struct TensorStorage {
  // Its initial contents, if not zeros or undefined.
  enum class Contents { None, InFile, External };

  bool planned = false;
  uint32_t memory_id = 0;  // 1-based; only if planned
  uint64_t offset = 0;     // in bytes, into its pool; only if planned

  Contents contents = Contents::None;
  uint32_t data_index = 0;  // for InFile: into the constants, or if planned into the initial values
  std::string_view name;    // fully qualified; empty if it has none
  Device device;

  static TensorStorage of(const schema::Tensor& tensor);

  // Neither memory nor contents: gets a pointer at run time.
  bool is_unset() const { return !planned && contents == Contents::None; }
  bool is_constant() const { return !planned && contents != Contents::None; }
  bool is_mutable_buffer() const { return planned && !name.empty(); }
};

// The tensor without data, on the mapped device. InvalidProgram (NotSupported for an unbounded
// shape) names the invalid field.
Result<Tensor> make_tensor(const schema::Tensor& tensor, const DeviceMap& devices = {});

}  // namespace pteron
