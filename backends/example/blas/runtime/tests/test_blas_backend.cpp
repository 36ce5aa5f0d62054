// Plans run without any lowering, and broken ones.
#include <gtest/gtest.h>

#include <cmath>

#include "pteron/backends/example/blas/schema/plan_generated.h"
#include "pteron/runtime/backend/interface.h"

namespace pteron::blas {
namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;

// The blob "weight".
struct Blobs final : NamedDataMap {
  Floats weight;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override {
    if (key != "weight") return make_error(Error::NotFound, "no blob");
    return Span<const uint8_t>(reinterpret_cast<const uint8_t*>(weight.data()),
                               weight.size() * sizeof(float));
  }
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override {
    return get_data(key);
  }
  size_t num_keys() const override { return 1; }
  Result<std::string_view> get_key(size_t) const override { return std::string_view("weight"); }
};

// A tensor that owns its memory, as an argument.
struct Argument {
  explicit Argument(const Shape& sizes, Floats values = {}, std::vector<uint8_t> order = {0, 1})
      : data(std::move(values)) {
    order.resize(sizes.size());
    auto tensor =
        Tensor::make(ScalarType::Float, sizes, order, nullptr, {}, ShapeDynamism::DynamicBound);
    data.resize(static_cast<size_t>(tensor->numel()), std::nanf(""));
    tensor->set_data(data.data(), tensor->nbytes());
    value = EValue(*tensor);
  }

  Floats data;
  EValue value;
};

// Inputs 0 and 1, with a right operand of `weight_sizes` if there are any, and `stores`.
Bytes plan(const Shape& weight_sizes = {}, const std::vector<uint32_t>& stores = {2},
           bool transposed = false, bool bias = false) {
  flatbuffers::FlatBufferBuilder builder;
  const auto left = schema::CreateOperand(builder, 0);
  const auto weight =
      weight_sizes.empty() ? 0 : schema::CreateWeightDirect(builder, "weight", &weight_sizes);
  const auto right = schema::CreateOperand(builder, 1, weight);
  const auto row = bias ? schema::CreateOperand(builder, 1) : 0;
  builder.Finish(schema::CreatePlanDirect(builder, left, right, row, transposed, &stores, 2),
                 schema::PlanIdentifier());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Result<std::unique_ptr<Delegate>> load(const Bytes& bytes, const Blobs& blobs = {}) {
  BackendInitContext context;
  context.named_data = &blobs;
  return find_backend("BlasBackend")->init(context, bytes, {});
}

Error run(const Result<std::unique_ptr<Delegate>>& delegate, std::vector<Argument*> arguments) {
  if (!delegate.ok()) return delegate.error().code();
  std::vector<EValue*> values;
  for (Argument* argument : arguments) values.push_back(&argument->value);
  BackendExecutionContext context;
  return (*delegate)->execute(context, {values.data(), values.size()});
}

TEST(BlasBackendTest, AnyBatchUpToTheOutputs) {
  Blobs blobs;  // out = x @ weight + row
  blobs.weight = {1, 2, 3, 4, 5, 6};
  const auto delegate = load(plan({2, 3}, {2}, false, true), blobs);
  Argument row({3}, {10, 20, 30}), out({4, 3}), two({2, 2}, {1, 0, 0, 1}), none({0, 2});
  ASSERT_EQ(run(delegate, {&two, &row, &out}), Error::Ok);
  EXPECT_EQ(out.value.tensor().describe(), "float32[2, 3]");
  EXPECT_EQ(Floats(out.data.begin(), out.data.begin() + 6), (Floats{11, 22, 33, 14, 25, 36}));
  ASSERT_EQ(run(delegate, {&none, &row, &out}), Error::Ok);
  EXPECT_EQ(out.value.tensor().describe(), "float32[0, 3]");
  Argument five({5, 2}, Floats(10));
  EXPECT_EQ(run(delegate, {&five, &row, &out}), Error::InvalidArgument);
}

TEST(BlasBackendTest, Shapes) {
  const struct {
    Shape left, right, out;
    bool transposed;
  } cases[] = {{{3, 4}, {4, 5}, {3, 5}, false}, {{3, 4}, {5, 4}, {3, 5}, true},
               {{4}, {5, 4}, {5}, true},        {{65, 130}, {130, 67}, {65, 67}, false},
               {{2, 0}, {0, 3}, {2, 3}, false}, {{2, 3}, {3, 0}, {2, 0}, false}};
  for (const auto& item : cases) {
    Argument left(item.left), right(item.right), out(item.out);
    for (size_t i = 0; i < left.data.size(); ++i) left.data[i] = static_cast<float>(i % 7);
    for (size_t i = 0; i < right.data.size(); ++i) right.data[i] = static_cast<float>(i % 5);
    ASSERT_EQ(run(load(plan({}, {2}, item.transposed)), {&left, &right, &out}), Error::Ok);
    const auto inner = static_cast<size_t>(item.left.back());
    const auto columns = static_cast<size_t>(item.out.back());
    for (size_t i = 0; i < out.data.size(); ++i) {
      float sum = 0;  // of small integers, so exact in any order
      for (size_t k = 0; k < inner; ++k) {
        const size_t j = i % columns;
        sum += left.data[i / columns * inner + k] *
               right.data[item.transposed ? j * inner + k : k * columns + j];
      }
      ASSERT_EQ(out.data[i], sum) << i;
    }
  }
}

TEST(BlasBackendTest, ChangesAnInputAfterAllHasBeenRead) {
  for (const std::vector<uint32_t>& stores : {std::vector<uint32_t>{0}, {0, 2}}) {
    const auto delegate = load(plan({}, stores));
    Argument state({1, 2}, {3, 5}), x({2, 2}, {0, 1, 2, 0}), out({1, 2});
    std::vector<Argument*> arguments{&state, &x};
    if (stores.size() > 1) arguments.push_back(&out);
    ASSERT_EQ(run(delegate, arguments), Error::Ok);
    EXPECT_EQ(state.data, (Floats{10, 3}));
    ASSERT_EQ(run(delegate, arguments), Error::Ok);
    EXPECT_EQ(state.data, (Floats{6, 10}));
    if (stores.size() > 1) {
      EXPECT_EQ(out.data, state.data);
    }
  }
}

TEST(BlasBackendTest, RefusesWrongArguments) {
  const auto delegate = load(plan());
  Argument a({2, 3}), b({2, 3}), out({2, 3}), columns({3, 3}, Floats(9), {1, 0});
  const Error error = run(delegate, {&a, &b, &out});
  EXPECT_EQ(error.message(), "float32[2, 3] and float32[2, 3] cannot be multiplied");
  EXPECT_EQ(run(delegate, {&a, &b}), Error::InvalidArgument);
  EXPECT_EQ(run(delegate, {&a, &columns, &out}), Error::InvalidType);
  Argument number({1});
  number.value = EValue(1.0);
  EXPECT_EQ(run(delegate, {&a, &number, &out}), Error::InvalidType);
  EXPECT_EQ(run(load(plan({}, {2}, false, true)), {&a, &columns, &out}), Error::InvalidType);
  Argument c({3, 3}, Floats(9));
  EXPECT_EQ(run(load(plan({}, {2}, false, true)), {&a, &c, &out}), Error::InvalidArgument);
  EXPECT_EQ(run(delegate, {&a, &c, &out}), Error::Ok) << "usable after errors";
  out.value.tensor().set_constant_data(out.data.data(), out.value.tensor().nbytes());
  EXPECT_EQ(run(delegate, {&a, &c, &out}), Error::InvalidArgument);
}

TEST(BlasBackendTest, RefusesWhatCannotBeLoaded) {
  Blobs blobs;
  blobs.weight = {1, 2, 3};
  EXPECT_EQ(load(plan({2, 2}), blobs).error(), Error::InvalidProgram) << "a blob of another size";
  EXPECT_EQ(load(plan({}, {3})).error(), Error::InvalidProgram) << "an argument that there is not";
  EXPECT_EQ(load(plan({}, {})).error(), Error::InvalidProgram) << "no result";
  EXPECT_EQ(load({}).error(), Error::InvalidProgram);
  EXPECT_EQ(load(Bytes(64)).error(), Error::InvalidProgram);
}

TEST(BlasBackendTest, SurvivesFlippedBits) {
  Blobs blobs;
  blobs.weight = Floats(4);
  const Bytes bytes = plan({2, 2}, {2}, true, true);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ (1u << (bit % 8)));
    Argument x({1, 2}, {1, 1}), row({2}, {1, 1}), out({1, 2});
    (void)run(load(flipped, blobs), {&x, &row, &out});
  }
}

}  // namespace
}  // namespace pteron::blas
