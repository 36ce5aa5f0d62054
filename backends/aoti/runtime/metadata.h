// The metadata of a compiled model, parsed from its blob and validated.
//
//   PTERON_ASSIGN_OR_RETURN(Metadata metadata, Metadata::parse(blob));
//   for (const ConstantInfo& constant : metadata.constants) ...;
//
// Text is borrowed from the blob, which must outlive the Metadata. Immutable after parse().
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/slim/core/dtype.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron::aoti {

// One dimension: `min <= size <= max`, and `size == scale * symbol + offset` if symbol >= 0.
struct DimContract {
  int64_t min = 0;
  int64_t max = 0;
  int32_t symbol = -1;
  int64_t scale = 1;
  int64_t offset = 0;

  bool is_fixed() const { return min == max; }
};

// One input or output of the code.
struct TensorContract {
  slim::DType dtype = slim::DType::Float;
  std::vector<DimContract> dims;
  std::vector<int64_t> strides;  // in elements, of the largest shape
  bool mutated = false;          // the code writes this input in place
};

// A relation between the sizes of a call's inputs; see metadata.fbs. parse() checks that each side
// leaves one value on a stack of at most kMaxDepth.
struct Condition {
  static constexpr size_t kMaxDepth = 32;
  enum Operation : int64_t { kConstant, kSymbol, kAdd, kMultiply, kDivide, kModulo, kMax, kMin };

  std::string_view relation;
  std::vector<int64_t> left;
  std::vector<int64_t> right;
  std::string_view text;
};

// A weight: `nbytes` at `offset` in the named blob `blob_key`.
struct ConstantInfo {
  std::string_view name;  // the container's
  std::string_view fqn;   // the model's
  slim::DType dtype = slim::DType::Float;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;  // in elements, into the bytes
  std::string_view blob_key;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  Sha256Digest digest{};  // of those bytes; zeros if unknown
};

// A call in the code, of a compiled kernel or a shim; see metadata.fbs.
struct KernelInfo {
  std::string_view name;
  std::string_view op;
  std::string_view module;
  std::string_view source;
};

struct Metadata {
  std::string_view device;
  std::string_view torch_version;
  uint32_t shim_list_version = 0;
  std::string_view platform;  // empty: unspecified
  std::string_view isa;
  std::vector<std::string_view> cpu_features;
  uint32_t num_threads = 0;
  uint32_t lowering_version = 0;  // see lowering_faults.h
  std::string_view weights_layout;
  std::vector<std::string_view> cuda_archs;
  Sha256Digest so_digest{};
  std::vector<TensorContract> inputs;
  std::vector<TensorContract> outputs;
  std::vector<Condition> conditions;  // on inputs
  std::vector<ConstantInfo> constants;
  std::vector<KernelInfo> kernels;  // in the order of the numbers that the code has for them
  int32_t num_symbols = 0;          // 1 + the largest symbol of any dimension

  // InvalidProgram: not a metadata blob, or an inconsistent one; the message says what and where.
  static Result<Metadata> parse(Span<const uint8_t> blob);
};

}  // namespace pteron::aoti
