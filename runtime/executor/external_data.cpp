#include "pteron/runtime/executor/external_data.h"

#include <algorithm>
#include <array>
#include <string>

#include "pteron/runtime/schema/tensor_data_generated.h"

namespace pteron {
namespace {

Result<Tensor> read_layout(const schema::TensorLayout& layout) {
  PTERON_CHECK_OR_RETURN(
      layout.sizes() && layout.dim_order() && layout.sizes()->size() <= kMaxTensorDims,
      Error::InvalidExternalData, "its layout is not complete");
  std::array<int64_t, kMaxTensorDims> sizes;
  std::copy(layout.sizes()->begin(), layout.sizes()->end(), sizes.begin());
  return Tensor::make(static_cast<ScalarType>(layout.scalar_type()),
                      {sizes.data(), layout.sizes()->size()},
                      {layout.dim_order()->data(), layout.dim_order()->size()}, nullptr);
}

Error check(const DataMap::Entry& entry, const Tensor& expected) {
  constexpr Error::Code kInvalid = Error::InvalidExternalData;
  PTERON_CHECK_OR_RETURN(entry.layout, kInvalid,
                         "it is data without a layout, expected the tensor %s",
                         expected.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const Tensor found, read_layout(*entry.layout));
  PTERON_CHECK_OR_RETURN(
      found.dtype() == expected.dtype() && found.dim() == expected.dim() &&
          std::equal(found.sizes().begin(), found.sizes().end(), expected.sizes().begin()),
      kInvalid, "it is %s, expected %s", found.describe().c_str(), expected.describe().c_str());
  PTERON_CHECK_OR_RETURN(
      std::equal(found.dim_order().begin(), found.dim_order().end(), expected.dim_order().begin()),
      kInvalid, "its dim order differs from the program's");
  PTERON_CHECK_OR_RETURN(entry.bytes().size() >= expected.nbytes(), kInvalid,
                         "it has %zu bytes, expected %zu", entry.bytes().size(), expected.nbytes());
  const auto address = reinterpret_cast<uintptr_t>(entry.bytes().data());
  PTERON_CHECK_OR_RETURN(expected.nbytes() == 0 || address % element_size(expected.dtype()) == 0,
                         kInvalid, "its offset in the file is no multiple of its element size");
  return Error::Ok;
}

}  // namespace

Result<Span<const uint8_t>> find_external_tensor(const DataMap& named_data, std::string_view name,
                                                 const Tensor& expected) {
  const DataMap::Entry* const entry = named_data.find(name);
  PTERON_CHECK_OR_RETURN(entry, Error::NotFound,
                         "external tensor %.*s is in none of the files; give the tensor-data file "
                         "(.ptd) that was written with the program",
                         static_cast<int>(name.size()), name.data());
  Error error = check(*entry, expected);
  if (!error.ok()) {
    return std::move(error).with_context("external tensor " + std::string(name) + " in " +
                                         entry->segments->file_name());
  }
  return Span<const uint8_t>(entry->bytes().data(), expected.nbytes());
}

}  // namespace pteron
