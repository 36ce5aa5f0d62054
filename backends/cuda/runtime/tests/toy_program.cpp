#include "pteron/backends/cuda/runtime/tests/toy_program.h"

#include <string>

#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/platform/sha256.h"

// The shared object's bytes, generated at build time.
extern const unsigned char kToyModel[];
extern const unsigned long kToyModelSize;  // NOLINT(google-runtime-int): as generated

namespace pteron::cuda::testing {
namespace {

using pteron::testing::Bytes;
using pteron::testing::DelegateCallSpec;
using pteron::testing::DelegateSpec;
using pteron::testing::MethodSpec;
using pteron::testing::ProgramSpec;
using pteron::testing::TensorSpec;
using pteron::testing::text;

Bytes metadata_of(const Sha256Digest& object, const std::string& weights) {
  namespace schema = aoti::schema;
  flatbuffers::FlatBufferBuilder builder;
  const auto tensor = [&] {
    const std::vector<flatbuffers::Offset<schema::Dim>> dims = {
        schema::CreateDim(builder, kToySize, kToySize, -1),
        schema::CreateDim(builder, kToySize, kToySize, -1)};
    const std::vector<int64_t> strides = {kToySize, 1};
    return schema::CreateTensorContractDirect(builder, 6, &dims, &strides);
  };
  const std::vector<int64_t> sizes = {kToySize, kToySize}, strides = {kToySize, 1};
  const std::vector<flatbuffers::Offset<schema::TensorContract>> inputs = {tensor()},
                                                                 outputs = {tensor()};
  const std::vector<flatbuffers::Offset<schema::Constant>> constants = {
      schema::CreateConstantDirect(builder, "weight", "weight", 6, &sizes, &strides, 0,
                                   weights.c_str(), 0, kToySize * kToySize * 4)};
  const std::vector<uint8_t> digest(object.begin(), object.end());
  // It has no kernels of its own.
  std::vector<flatbuffers::Offset<flatbuffers::String>> architectures;
  for (const char* name : {"sm_70", "sm_80", "sm_90", "sm_100", "sm_120"}) {
    architectures.push_back(builder.CreateString(name));
  }
  builder.Finish(schema::CreateModelMetadataDirect(builder, "cuda", "2.13.0", 1, nullptr, nullptr,
                                                   nullptr, 1, &architectures, &digest, &inputs,
                                                   &outputs, &constants, "packed"),
                 schema::ModelMetadataIdentifier());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

TensorSpec on_device(TensorSpec tensor) {
  tensor.has_extra = true;
  tensor.device_type = static_cast<int8_t>(DeviceType::CUDA);
  return tensor;
}

HostTensor random_weight(uint64_t seed) {
  return round_to(HostTensor::random({kToySize, kToySize}, seed), DType::Float);
}

}  // namespace

ToyProgram::ToyProgram() : a_(random_weight(1)), b_(random_weight(2)) {
  const Bytes object(kToyModel, kToyModel + kToyModelSize);
  const Sha256Digest digest = sha256(object);
  const std::string code = to_hex(digest) + "_so_blob";
  constexpr int32_t kSize = static_cast<int32_t>(kToySize);
  constexpr uint64_t kNbytes = kToySize * kToySize * 4;
  ProgramSpec program;
  program.add_named(code, object);
  MethodSpec& method = program.add_method("forward");
  const int x = method.add(on_device(TensorSpec::input({kSize, kSize})));
  const int between = method.add(on_device(TensorSpec::planned({kSize, kSize}, 0)));
  const int y = method.add(on_device(TensorSpec::planned({kSize, kSize}, kNbytes)));
  method.inputs = {x};
  method.outputs = {y};
  method.buffer_sizes = {{0, 2 * static_cast<int64_t>(kNbytes)}};
  method.buffer_devices = {{1, static_cast<int8_t>(DeviceType::CUDA), 0}};
  int32_t index = 0;
  for (const HostTensor* weight : {&a_, &b_}) {
    const std::string key = "weights_" + std::to_string(index);
    const std::vector<float> values(weight->values.begin(), weight->values.end());
    program.add_named(key, pteron::testing::floats(values));
    program.add_named(code + "/" + key + "/metadata", metadata_of(digest, key));
    const auto segment = static_cast<uint32_t>(program.add_segment(text(code + "\n" + key)));
    method.delegates->push_back(
        DelegateSpec{"CudaBackend", true, 1, segment, {{"target_device", text("cuda:0")}}});
    method.instruction(
        DelegateCallSpec{index, {{index == 0 ? x : between, index == 0 ? between : y}}});
    ++index;
  }
  bytes_ = pteron::testing::write_program(program);
}

HostTensor ToyProgram::reference(const HostTensor& x) const { return matmul(matmul(x, a_), b_); }

}  // namespace pteron::cuda::testing
