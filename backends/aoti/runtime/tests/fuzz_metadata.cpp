// The metadata of a compiled model: whatever its bytes are, parsing it, describing it and checking
// inputs against it end in an error or a result.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "pteron/backends/aoti/runtime/contract.h"
#include "pteron/backends/aoti/runtime/describe.h"
#include "pteron/backends/aoti/runtime/lowering_faults.h"
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/backend/named_data_map.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace pteron::aoti {
namespace {

// Two inputs of related sizes, and one output.
std::vector<uint8_t> whole() {
  flatbuffers::FlatBufferBuilder builder;
  const auto tensor = [&](int32_t symbol, int64_t scale) {
    std::vector<flatbuffers::Offset<schema::Dim>> dims = {
        schema::CreateDim(builder, 1, 64, symbol, scale), schema::CreateDim(builder, 3, 3)};
    const std::vector<int64_t> strides = {3, 1};
    return schema::CreateTensorContractDirect(builder, 6, &dims, &strides);
  };
  const std::vector<flatbuffers::Offset<schema::TensorContract>> inputs = {tensor(0, 1),
                                                                           tensor(1, 2)};
  const std::vector<flatbuffers::Offset<schema::TensorContract>> outputs = {tensor(0, 1)};
  const std::vector<int64_t> left = {1, 0, 0, 2, 3}, right = {1, 1, 0, 7, 5}, sizes = {3},
                             strides = {1};
  const std::vector<flatbuffers::Offset<schema::Condition>> conditions = {
      schema::CreateConditionDirect(builder, "<=", &left, &right, "2 * x <= y % 7")};
  const std::vector<uint8_t> digest(32, 7);
  const std::vector<flatbuffers::Offset<schema::Constant>> constants = {
      schema::CreateConstantDirect(builder, "bias", "layer.bias", 6, &sizes, &strides, 0, "weights",
                                   0, 12, &digest)};
  const std::vector<flatbuffers::Offset<schema::Kernel>> kernels = {
      schema::CreateKernelDirect(builder, "kernel", "aten.add.Tensor", "layer", "model.py:4")};
  const std::vector<flatbuffers::Offset<schema::OpCount>> counts = {
      schema::CreateOpCountDirect(builder, "aten.add.Tensor", 2)};
  const std::vector<flatbuffers::Offset<flatbuffers::String>> texts = {
      builder.CreateString("aoti_torch_empty_strided")};
  builder.Finish(
      schema::CreateModelMetadataDirect(builder, "cpu", "2.13.0", 1, &texts, "x86-64-v3", &texts, 2,
                                        &texts, &digest, &inputs, &outputs, &constants, "packed",
                                        &counts, &texts, 1, "", &conditions, &kernels),
      schema::ModelMetadataIdentifier());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// The blobs of a file with nothing but metadata.
struct OneBlob final : NamedDataMap {
  Span<const uint8_t> blob;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override {
    if (key != "code/weights/metadata") return Error::NotFound;
    return blob;
  }
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override {
    return get_data(key);
  }
  size_t num_keys() const override { return 1; }
  Result<std::string_view> get_key(size_t) const override { return Error::NotSupported; }
};

void check(const Metadata& metadata) {
  Result<Contract> contract = Contract::make(metadata);
  if (!contract.ok()) return;
  const auto shape = [](const TensorContract& tensor, bool largest) {
    std::vector<int64_t> sizes;
    for (const DimContract& dim : tensor.dims) sizes.push_back(largest ? dim.max : dim.min);
    return sizes;
  };
  for (const bool largest : {false, true}) {
    contract->begin();
    for (size_t i = 0; i < metadata.inputs.size(); ++i) {
      const auto type = static_cast<ScalarType>(metadata.inputs[i].dtype);
      const Result<Tensor> tensor = Tensor::make(type, shape(metadata.inputs[i], largest), nullptr);
      if (!tensor.ok()) continue;
      int64_t strides[slim::kMaxDims];
      bool fits = false;
      (void)contract->check_input(i, *tensor, strides, &fits).ok();
    }
    (void)contract->check_together().ok();
    for (size_t i = 0; i < metadata.outputs.size(); ++i) {
      const std::vector<int64_t> sizes = shape(metadata.outputs[i], largest);
      (void)contract->check_output(i, metadata.outputs[i].dtype, sizes).ok();
    }
  }
}

}  // namespace
}  // namespace pteron::aoti

using namespace pteron::aoti;

static bool try_metadata(const uint8_t* data, size_t size) {
  // Aligned, and no byte longer.
  const std::vector<uint8_t> blob(data, data + size);
  const auto metadata = Metadata::parse(blob);
  OneBlob map;
  map.blob = {blob.data(), blob.size()};
  const std::string processed = "code\nweights";
  (void)describe_delegate(map,
                          {reinterpret_cast<const uint8_t*>(processed.data()), processed.size()});
  if (!metadata.ok()) {
    if (metadata.error().message().empty()) std::abort();
    return false;
  }
  (void)lowering_faults(*metadata);
  check(*metadata);
  return true;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const std::vector<uint8_t> bytes = whole();
  if (!try_metadata(bytes.data(), bytes.size())) std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned) {
  if (size < 64) {
    const std::vector<uint8_t> bytes = whole();
    size = std::min(bytes.size(), max_size);
    std::copy_n(bytes.begin(), size, data);
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)try_metadata(data, size);
  return 0;
}
