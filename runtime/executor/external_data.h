// Tensors in data files that a program refers to by name.
#pragma once

#include <string_view>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/program_reader/data_map.h"

namespace pteron {

// The bytes of tensor `name`, in place. NotFound: no data file has it; InvalidExternalData: it is
// no tensor, has another dtype, shape or dim order, or its bytes are too few or misaligned.
Result<Span<const uint8_t>> find_external_tensor(const DataMap& named_data, std::string_view name,
                                                 const Tensor& expected);

}  // namespace pteron
