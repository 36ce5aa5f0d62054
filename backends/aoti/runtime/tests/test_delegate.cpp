#include <algorithm>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/delegate.h"
#include "pteron/backends/aoti/runtime/tests/delegate_testing.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::aoti {
namespace {

Result<std::unique_ptr<Delegate>> load(const Payload& payload,
                                       const std::vector<BackendOption>& options = {}) {
  BackendInitContext context;
  context.method_name = "forward";
  context.named_data = &payload.data;
  context.options = options;
  return load_delegate(context, payload.processed_bytes(), std::make_unique<FakeDevice>());
}

EValue tensor_over(float* data, int64_t size, int64_t capacity = -1) {
  const uint8_t order[] = {0};
  const int64_t upper = capacity < 0 ? size : capacity;
  Result<Tensor> tensor =
      Tensor::make(ScalarType::Float, Span<const int64_t>(&upper, 1), order, data, Device{},
                   capacity < 0 ? ShapeDynamism::Static : ShapeDynamism::DynamicBound);
  EXPECT_TRUE(tensor.ok());
  if (capacity >= 0) {
    EXPECT_TRUE(tensor->resize(Span<const int64_t>(&size, 1)).ok());
  }
  return EValue(std::move(*tensor));
}

Error run(Delegate& delegate, std::vector<EValue> values) {
  std::vector<EValue*> pointers;
  for (EValue& value : values) pointers.push_back(&value);
  BackendExecutionContext context;
  return delegate.execute(context, Span<EValue* const>(pointers.data(), pointers.size()));
}

std::string failure_of(const Payload& payload, Error::Code code,
                       const std::vector<BackendOption>& options = {}) {
  Result<std::unique_ptr<Delegate>> delegate = load(payload, options);
  EXPECT_FALSE(delegate.ok());
  if (delegate.ok()) return "";
  EXPECT_EQ(delegate.error(), code) << delegate.error().message();
  EXPECT_EQ(mapped_shared_objects(), 0);
  return delegate.error().message();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Delegate, LoadsRunsAndUnloads) {
  const Payload payload;
  {
    auto delegate = value_of(load(payload));
    float x[] = {1, 2, 3}, y[] = {-1, -1, -1};
    Error error = run(*delegate, {tensor_over(x, 3), tensor_over(y, 3)});
    ASSERT_TRUE(error.ok()) << error.message();
    EXPECT_EQ(y[0], 12);
    EXPECT_EQ(y[2], 36);
    EXPECT_GT(mapped_shared_objects(), 0);
  }
  EXPECT_EQ(mapped_shared_objects(), 0);
}

TEST(Delegate, WarnsOfFaultsOfTheLowering) {
  std::string warnings;
  set_log_sink([](LogLevel, const char* message,
                  void* text) { static_cast<std::string*>(text)->append(message); },
               &warnings);
  EXPECT_TRUE(load(Payload()).ok());
  EXPECT_EQ(warnings, "");
  MetadataChoices early;
  early.lowering_version = 0;
  EXPECT_TRUE(load(Payload(early)).ok());
  set_log_sink(nullptr, nullptr);
  EXPECT_TRUE(contains(warnings, "use the wrong weights")) << warnings;
  EXPECT_TRUE(contains(warnings, ": lower the model again (CHANGELOG.md)")) << warnings;
}

// Takes the last variant.
class LastVariant final : public FakeDevice {
 public:
  Result<size_t> choose_variant(Span<const Metadata> variants) override {
    return variants.size() - 1;
  }
};

TEST(Delegate, ReadsNoCodeOfVariantsThatAreNotChosen) {
  Payload payload;
  const std::string unused = std::string(64, '0') + "_so_blob";
  const Sha256Digest digest{};
  payload.data.blobs[unused + "/weights_blob/metadata"] =
      make_metadata(digest, "weights_blob", MetadataChoices());
  payload.processed = unused + "\nweights_blob\n" + payload.processed;
  BackendInitContext context;
  context.method_name = "forward";
  context.named_data = &payload.data;
  auto delegate =
      value_of(load_delegate(context, payload.processed_bytes(), std::make_unique<LastVariant>()));
  float x[] = {1, 2, 3}, y[3];
  ASSERT_TRUE(run(*delegate, {tensor_over(x, 3), tensor_over(y, 3)}).ok());
  EXPECT_EQ(y[2], 36);
  EXPECT_FALSE(load(payload).ok());  // takes the first, whose code is missing
}

TEST(Delegate, TwoShareOneSharedObject) {
  const Payload payload;
  auto first = value_of(load(payload));
  const int mapped = mapped_shared_objects();
  auto second = value_of(load(payload));
  EXPECT_EQ(mapped_shared_objects(), mapped);
}

TEST(Delegate, RunsInPlaceAndOverlapping) {
  const Payload payload;
  auto delegate = value_of(load(payload));
  float both[] = {1, 2, 3};
  ASSERT_TRUE(run(*delegate, {tensor_over(both, 3), tensor_over(both, 3)}).ok());
  EXPECT_EQ(both[1], 24);
}

TEST(Delegate, ASteadyStateAsksTheSystemForNothing) {
  const Payload payload;
  auto delegate = value_of(load(payload));
  float x[] = {1, 2, 3}, y[3];
  std::vector<EValue> values = {tensor_over(x, 3), tensor_over(y, 3)};
  EValue* pointers[] = {&values[0], &values[1]};
  BackendExecutionContext context;
  uint64_t after_first = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(delegate->execute(context, pointers).ok());
    if (i == 0) after_first = slim::caching_allocator_stats().system_allocations;
  }
  EXPECT_EQ(slim::caching_allocator_stats().system_allocations, after_first);
}

// Prepares by a run on other memory, and then gives what that gave.
class PreparingDevice final : public FakeDevice {
 public:
  bool can_prepare() const override { return true; }
  Error prepare(const FinishedRun& run) override {
    EXPECT_EQ(run.num_inputs, 1u);
    EXPECT_TRUE(run.fixed[0] && !run.fixed[1]);
    EXPECT_FALSE(run.changes(0));
    float x[] = {10, 20, 30};
    std::vector<EValue> values = {tensor_over(x, 3), tensor_over(result_, 3)};
    EValue* pointers[] = {&values[0], &values[1]};
    return run.execute(pointers);
  }
  Result<bool> run_prepared(Span<EValue* const> arguments) override {
    if (result_[0] == 0) return false;
    std::copy_n(result_, 3, arguments[1]->tensor().data_as<float>());
    return true;
  }

 private:
  float result_[3] = {0, 0, 0};
};

TEST(Delegate, LeavesARunToTheDeviceThatPreparedIt) {
  const Payload payload;
  BackendInitContext context;
  context.named_data = &payload.data;
  auto delegate = value_of(
      load_delegate(context, payload.processed_bytes(), std::make_unique<PreparingDevice>()));
  EXPECT_TRUE(delegate->can_prepare());
  EXPECT_FALSE((*load(payload))->can_prepare());
  float x[] = {1, 2, 3}, y[3];
  std::vector<EValue> values = {tensor_over(x, 3), tensor_over(y, 3)};
  EValue* pointers[] = {&values[0], &values[1]};
  BackendExecutionContext execution;
  ASSERT_TRUE(delegate->execute(execution, pointers).ok());
  EXPECT_EQ(y[0], 12);
  const bool fixed[] = {true, false};
  ASSERT_TRUE(delegate->prepare(execution, pointers, fixed).ok());
  EXPECT_EQ(y[0], 12) << "preparing computed";
  ASSERT_TRUE(delegate->execute(execution, pointers).ok());
  EXPECT_EQ(y[0], 30);
}

struct CountingTracer final : EventTracer {
  uint64_t begin(std::string_view, std::string_view) override { return ++begun; }
  void end(uint64_t) override {}
  uint64_t begun = 0;
};

TEST(Delegate, LeavesTheEventOfItsCallToTheRuntime) {
  const Payload payload;
  auto delegate = value_of(load(payload));
  float x[] = {1, 2, 3}, y[3];
  std::vector<EValue> values = {tensor_over(x, 3), tensor_over(y, 3)};
  EValue* pointers[] = {&values[0], &values[1]};
  CountingTracer tracer;
  BackendExecutionContext context;
  context.tracer = &tracer;
  ASSERT_TRUE(delegate->execute(context, pointers).ok());
  EXPECT_EQ(tracer.begun, 0u);
}

TEST(Delegate, RefusesWrongInputsAndGoesOn) {
  const Payload payload;
  auto delegate = value_of(load(payload));
  float x[] = {1, 2, 3, 4}, y[] = {-1, -1, -1};
  Error error = run(*delegate, {tensor_over(x, 4), tensor_over(y, 3)});
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_TRUE(contains(error.message(), "float32[4]")) << error.message();
  EXPECT_TRUE(contains(error.message(), "float32[3]")) << error.message();
  const int64_t sizes[] = {1, 3};
  std::vector<EValue> values;
  values.emplace_back(*Tensor::make(ScalarType::Float, sizes, x));
  values.push_back(tensor_over(y, 3));
  EXPECT_EQ(run(*delegate, values), Error::InvalidArgument);
  values[0] = EValue(*Tensor::make(ScalarType::Int, Span<const int64_t>(sizes + 1, 1), x));
  EXPECT_EQ(run(*delegate, values), Error::InvalidType);
  values[0] = EValue(std::string_view("text"));
  EXPECT_EQ(run(*delegate, values), Error::InvalidType);
  EXPECT_EQ(run(*delegate, {tensor_over(x, 3)}), Error::InvalidProgram);
  EXPECT_EQ(y[0], -1);
  EXPECT_TRUE(run(*delegate, {tensor_over(x, 3), tensor_over(y, 3)}).ok());
  EXPECT_EQ(y[0], 12);
}

TEST(Delegate, AFailedRunLeavesItUsable) {
  const Payload payload;
  auto delegate = value_of(load(payload));
  float bad[] = {13, 2, 3}, x[] = {1, 2, 3}, y[] = {-1, -1, -1};
  Error error = run(*delegate, {tensor_over(bad, 3), tensor_over(y, 3)});
  EXPECT_TRUE(contains(error.message(), "thirteen")) << error.message();
  EXPECT_EQ(y[0], -1);
  EXPECT_TRUE(run(*delegate, {tensor_over(x, 3), tensor_over(y, 3)}).ok());
}

TEST(Delegate, ResizesOutputsWithinTheirBound) {
  MetadataChoices choices;
  choices.min = 1;
  choices.max = 3;
  choices.symbol = 0;
  const Payload payload(choices);
  auto delegate = value_of(load(payload));
  float x[] = {1, 2, 3}, y[] = {-1, -1, -1};
  std::vector<EValue> values = {tensor_over(x, 2), tensor_over(y, 3, 3)};
  EValue* pointers[] = {&values[0], &values[1]};
  BackendExecutionContext context;
  Error error = delegate->execute(context, pointers);
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(values[1].tensor().size(0), 2);
  EXPECT_EQ(y[1], 24);
  EXPECT_EQ(y[2], -1);
}

TEST(Delegate, CopiesInputsOfAnotherLayout) {
  // Told that every second element counts, the delegate has to spread the input; the toy reads the
  // first three elements, of which the second is a gap.
  MetadataChoices choices;
  choices.stride = 2;
  const Payload payload(choices);
  auto delegate = value_of(load(payload));
  float x[] = {1, 2, 3}, y[3];
  Error error = run(*delegate, {tensor_over(x, 3), tensor_over(y, 3)});
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_EQ(y[0], 12);
  EXPECT_EQ(y[2], 34);
}

TEST(Delegate, RefusesUnknownOptionsByName) {
  const Payload payload;
  const std::string message =
      failure_of(payload, Error::InvalidArgument,
                 {{"sped", int64_t{1}}, {"speed", int64_t{1}}, {"colour", std::string("red")}});
  EXPECT_TRUE(contains(message, "sped, colour")) << message;
  EXPECT_TRUE(contains(message, "known: speed")) << message;
}

TEST(Delegate, RefusesProcessedBytesThatAreNoKeys) {
  Payload payload;
  for (const char* text : {"", "one line", "\n", "a\nb\nc"}) {
    payload.processed = text;
    failure_of(payload, Error::InvalidProgram);
  }
}

TEST(Delegate, RefusesToGuessWithoutMetadata) {
  Payload payload;
  payload.data.blobs.erase(payload.metadata_key);
  const std::string message = failure_of(payload, Error::NotSupported);
  EXPECT_TRUE(contains(message, "no metadata")) << message;
}

TEST(Delegate, RefusesAnotherDeviceAndNewerShims) {
  MetadataChoices choices;
  choices.device = "cuda";
  EXPECT_TRUE(contains(failure_of(Payload(choices), Error::DelegateInvalidCompatibility), "cuda"));
  choices = {};
  choices.shim_list_version = 1000;
  EXPECT_TRUE(contains(failure_of(Payload(choices), Error::DelegateInvalidCompatibility), "1000"));
}

TEST(Delegate, RefusesDamagedCode) {
  Payload payload;
  std::vector<uint8_t>& code = payload.data.blobs[payload.code_key];
  code[code.size() / 2] ^= 4;
  EXPECT_TRUE(contains(failure_of(payload, Error::InvalidProgram), "damaged"));
  MetadataChoices choices;
  choices.another_digest = true;
  failure_of(Payload(choices), Error::InvalidProgram);
}

TEST(Delegate, RefusesConstantsThatDoNotFit) {
  MetadataChoices choices;
  choices.bias_nbytes = 16;  // the blob has 12
  EXPECT_TRUE(contains(failure_of(Payload(choices), Error::InvalidProgram), "layer.bias"));
  choices.bias_nbytes = 8;  // the sizes say 12
  failure_of(Payload(choices), Error::InvalidProgram);
  choices = {};
  choices.bias_name = "offset";
  EXPECT_TRUE(contains(failure_of(Payload(choices), Error::InvalidProgram), "offset"));
  Payload payload;
  payload.data.blobs.erase("weights_blob");
  failure_of(payload, Error::NotFound);
}

TEST(Delegate, RefusesMisalignedMetadata) {
  const Payload good;
  const std::vector<uint8_t>& whole = good.data.blobs.at(good.metadata_key);
  std::vector<uint8_t> moved(whole.size() + 1);
  std::copy(whole.begin(), whole.end(), moved.begin() + 1);
  const Result<Metadata> metadata = Metadata::parse({moved.data() + 1, whole.size()});
  ASSERT_FALSE(metadata.ok());
  EXPECT_EQ(metadata.error(), Error::InvalidProgram);
  EXPECT_TRUE(contains(metadata.error().message(), "multiple of 8"));
}

TEST(Delegate, RefusesEveryTruncationAndFlipOfTheMetadata) {
  const Payload good;
  const std::vector<uint8_t>& whole = good.data.blobs.at(good.metadata_key);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Span<const uint8_t> part(whole.data(), size);
    const Result<Metadata> metadata = Metadata::parse(part);
    if (metadata.ok()) continue;
    EXPECT_EQ(metadata.error(), Error::InvalidProgram);
  }
  // A flip may be harmless where nothing depends on it; it must never crash.
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> flipped = whole;
      flipped[at] ^= static_cast<uint8_t>(1 << bit);
      const Result<Metadata> metadata = Metadata::parse(flipped);
      if (metadata.ok()) continue;
      EXPECT_EQ(metadata.error(), Error::InvalidProgram);
    }
  }
}

}  // namespace
}  // namespace pteron::aoti
