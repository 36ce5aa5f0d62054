// A delegate's payload around the toy model (container/tests/toy_model.cpp: y = 2 * x + bias).
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"
#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/runtime/backend/named_data_map.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron::aoti {

class FakeDataMap final : public NamedDataMap {
 public:
  std::map<std::string, std::vector<uint8_t>, std::less<>> blobs;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override {
    const auto found = blobs.find(key);
    if (found == blobs.end()) {
      return make_error(Error::NotFound, "no blob %.*s", static_cast<int>(key.size()), key.data());
    }
    return Span<const uint8_t>(found->second.data(), found->second.size());
  }
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override {
    return get_data(key);
  }
  size_t num_keys() const override { return blobs.size(); }
  Result<std::string_view> get_key(size_t) const override { return Error::NotSupported; }
};

// A CPU that any model may run on, with one option.
class FakeDevice : public AotiDevice {
 public:
  std::string_view name() const override { return "cpu"; }
  std::vector<std::string_view> option_keys() const override { return {"speed"}; }
  Error check_machine(const Metadata&) override { return Error::Ok; }
};

struct MetadataChoices {
  std::string device = "cpu";
  uint32_t shim_list_version = 1;
  int64_t min = 3, max = 3;
  int32_t symbol = -1;
  int64_t stride = 1;
  uint64_t bias_nbytes = 12;
  std::string bias_name = "bias";
  bool another_digest = false;
  std::vector<std::string> shims;
  std::vector<std::pair<std::string, uint32_t>> op_counts;
  std::vector<std::string> boundaries;
  uint32_t lowering_version = 3;
};

inline std::vector<uint8_t> make_metadata(const Sha256Digest& digest, const std::string& weights,
                                          const MetadataChoices& choices) {
  flatbuffers::FlatBufferBuilder builder;
  const auto tensor = [&] {
    std::vector<flatbuffers::Offset<schema::Dim>> dims = {
        schema::CreateDim(builder, choices.min, choices.max, choices.symbol)};
    const std::vector<int64_t> strides = {choices.stride};
    return schema::CreateTensorContractDirect(builder, 6, &dims, &strides);
  };
  const std::vector<int64_t> sizes = {3}, strides = {1};
  const std::vector<flatbuffers::Offset<schema::TensorContract>> inputs = {tensor()},
                                                                 outputs = {tensor()};
  const std::vector<flatbuffers::Offset<schema::Constant>> constants = {
      schema::CreateConstantDirect(builder, choices.bias_name.c_str(), "layer.bias", 6, &sizes,
                                   &strides, 0, weights.c_str(), 0, choices.bias_nbytes)};
  std::vector<flatbuffers::Offset<schema::OpCount>> counts;
  for (const auto& [op, count] : choices.op_counts) {
    counts.push_back(schema::CreateOpCountDirect(builder, op.c_str(), count));
  }
  const auto texts = [&](const std::vector<std::string>& values) {
    std::vector<flatbuffers::Offset<flatbuffers::String>> offsets;
    for (const std::string& value : values) offsets.push_back(builder.CreateString(value));
    return offsets;
  };
  const auto shims = texts(choices.shims), boundaries = texts(choices.boundaries);
  std::vector<uint8_t> bytes(digest.begin(), digest.end());
  if (choices.another_digest) bytes[0] ^= 1;
  builder.Finish(schema::CreateModelMetadataDirect(
                     builder, choices.device.c_str(), "2.13.0", choices.shim_list_version, &shims,
                     "x86-64-v2", nullptr, 1, nullptr, &bytes, &inputs, &outputs, &constants,
                     "packed", &counts, &boundaries, choices.lowering_version),
                 schema::ModelMetadataIdentifier());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// The blobs of one delegate, and its processed bytes.
struct Payload {
  FakeDataMap data;
  std::string processed, code_key, metadata_key;

  explicit Payload(const MetadataChoices& choices = {}) {
    const std::vector<uint8_t> object = read_toy("toy_model");
    const Sha256Digest digest = sha256(object);
    code_key = to_hex(digest) + "_so_blob";
    const std::string weights = "weights_blob";
    processed = code_key + "\n" + weights;
    metadata_key = code_key + "/" + weights + "/metadata";
    const float bias[] = {10, 20, 30};
    data.blobs[code_key] = object;
    data.blobs[weights].resize(sizeof(bias));
    std::memcpy(data.blobs[weights].data(), bias, sizeof(bias));
    data.blobs[metadata_key] = make_metadata(digest, weights, choices);
  }

  Span<const uint8_t> processed_bytes() const {
    return {reinterpret_cast<const uint8_t*>(processed.data()), processed.size()};
  }
};

}  // namespace pteron::aoti
