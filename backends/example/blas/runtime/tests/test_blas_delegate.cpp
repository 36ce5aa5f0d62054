#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "pteron/backends/example/blas/runtime/blas_delegate.h"
#include "pteron/backends/example/blas/runtime/tests/plan_writer.h"
#include "pteron/runtime/backend/interface.h"

namespace pteron::blas {
namespace {

using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;

class Blobs final : public NamedDataMap {
 public:
  std::map<std::string, Floats, std::less<>> blobs;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override {
    const auto found = blobs.find(key);
    if (found == blobs.end()) return make_error(Error::NotFound, "no blob");
    return Span<const uint8_t>(reinterpret_cast<const uint8_t*>(found->second.data()),
                               found->second.size() * sizeof(float));
  }
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override {
    return get_data(key);
  }
  size_t num_keys() const override { return blobs.size(); }
  Result<std::string_view> get_key(size_t) const override { return Error::NotFound; }
};

// A tensor that owns its memory, as an argument.
struct Argument {
  explicit Argument(Shape sizes, Floats values = {}, std::vector<uint8_t> dim_order = {})
      : data(std::move(values)) {
    if (dim_order.empty()) {
      for (size_t i = 0; i < sizes.size(); ++i) dim_order.push_back(static_cast<uint8_t>(i));
    }
    auto tensor =
        Tensor::make(ScalarType::Float, sizes, dim_order, nullptr, {}, ShapeDynamism::DynamicBound);
    data.resize(static_cast<size_t>(tensor->numel()), std::nanf(""));
    tensor->set_data(data.data());
    value = EValue(*tensor);
  }

  Floats data;
  EValue value;
};

Error run(Delegate& delegate, std::vector<Argument*> arguments) {
  std::vector<EValue*> values;
  for (Argument* argument : arguments) values.push_back(&argument->value);
  BackendExecutionContext context;
  return delegate.execute(context, {values.data(), values.size()});
}

Result<std::unique_ptr<Delegate>> load(const std::vector<uint8_t>& bytes, const Blobs& blobs = {}) {
  PTERON_ASSIGN_OR_RETURN(Plan plan, parse_plan(bytes));
  return BlasDelegate::load(std::move(plan), blobs);
}

Shape sizes_of(const Argument& argument) {
  const auto sizes = argument.value.tensor().sizes();
  return {sizes.begin(), sizes.end()};
}

TEST(BlasDelegateTest, Examples) {
  // out = x @ weight + bias, for any batch up to the output's.
  PlanWriter plan(1);
  plan.add(plan.argument(0), plan.constant("weight", {2, 3}), plan.constant("bias", {3}));
  plan.store(0, 1);
  Blobs blobs;
  blobs.blobs = {{"weight", {1, 2, 3, 4, 5, 6}}, {"bias", {10, 20, 30}}};
  auto delegate = load(plan.finish(), blobs);
  ASSERT_TRUE(delegate.ok()) << delegate.error().message();

  Argument out({4, 3});
  Argument two({2, 2}, {1, 0, 0, 1});
  ASSERT_TRUE(run(**delegate, {&two, &out}).ok());
  EXPECT_EQ(sizes_of(out), (Shape{2, 3}));
  EXPECT_EQ(Floats(out.data.begin(), out.data.begin() + 6), (Floats{11, 22, 33, 14, 25, 36}));

  Argument one({1, 2}, {1, 1});
  ASSERT_TRUE(run(**delegate, {&one, &out}).ok());
  EXPECT_EQ(sizes_of(out), (Shape{1, 3}));
  EXPECT_EQ(Floats(out.data.begin(), out.data.begin() + 3), (Floats{15, 27, 39}));

  Argument none({0, 2});
  ASSERT_TRUE(run(**delegate, {&none, &out}).ok());
  EXPECT_EQ(sizes_of(out), (Shape{0, 3}));

  Argument five({5, 2}, Floats(10));
  EXPECT_EQ(run(**delegate, {&five, &out}), Error::InvalidArgument);
}

TEST(BlasDelegateTest, BackendIsRegisteredAndDescribesItself) {
  BackendInterface* const backend = find_backend("BlasBackend");
  ASSERT_NE(backend, nullptr);
  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.argument(1));
  plan.store(0, 2);
  const auto bytes = plan.finish();
  const Blobs blobs;
  EXPECT_EQ(backend->describe(blobs, bytes, {}), "products  1\nweights  0\n");
  BackendInitContext context;
  context.named_data = &blobs;
  EXPECT_TRUE(backend->init(context, bytes, {}).ok());
  const BackendOption options[] = {{"speed", true}};
  context.options = options;
  const auto refused = backend->init(context, bytes, {});
  EXPECT_EQ(refused.error(), Error::InvalidArgument);
  EXPECT_NE(refused.error().message().find("speed"), std::string::npos);
}

// Sum over k, one element after the other.
Floats reference(const Floats& a, const Floats& b, size_t count, size_t m, size_t k, size_t n,
                 bool transposed) {
  Floats out(count * m * n);
  for (size_t c = 0; c < count; ++c) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t l = 0; l < k; ++l) {
          sum += a[(c * m + i) * k + l] * b[c * k * n + (transposed ? j * k + l : l * n + j)];
        }
        out[(c * m + i) * n + j] = static_cast<float>(sum);
      }
    }
  }
  return out;
}

struct Case {
  const char* name;
  Shape left, right;
  bool transposed;
  size_t count, m, k, n;
};

class BlasProductTest : public ::testing::TestWithParam<Case> {};

TEST_P(BlasProductTest, EqualsReference) {
  const Case& param = GetParam();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Floats a(param.count * param.m * param.k), b(param.count * param.k * param.n);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);

  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.argument(1), 0, param.transposed);
  plan.store(0, 2);
  auto delegate = load(plan.finish());
  ASSERT_TRUE(delegate.ok());
  Argument left(param.left, a), right(param.right, b);
  Shape sizes = param.left;
  sizes.back() = static_cast<int64_t>(param.n);
  Argument out(sizes);
  ASSERT_TRUE(run(**delegate, {&left, &right, &out}).ok());
  const Floats expected = reference(a, b, param.count, param.m, param.k, param.n, param.transposed);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.data[i], expected[i], 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Values, BlasProductTest,
    ::testing::Values(Case{"mm", {3, 4}, {4, 5}, false, 1, 3, 4, 5},
                      Case{"linear", {3, 4}, {5, 4}, true, 1, 3, 4, 5},
                      Case{"vector", {4}, {5, 4}, true, 1, 1, 4, 5},
                      Case{"leading_dims", {2, 3, 4}, {4, 5}, false, 1, 6, 4, 5},
                      Case{"bmm", {2, 3, 4}, {2, 4, 5}, false, 2, 3, 4, 5},
                      Case{"one_element", {1, 1}, {1, 1}, false, 1, 1, 1, 1},
                      Case{"large", {65, 130}, {130, 67}, false, 1, 65, 130, 67},
                      Case{"nothing_to_sum", {2, 0}, {0, 3}, false, 1, 2, 0, 3},
                      Case{"no_columns", {2, 3}, {3, 0}, false, 1, 2, 3, 0},
                      Case{"no_batches", {0, 2, 3}, {0, 3, 4}, false, 0, 2, 3, 4}),
    [](const auto& info) { return info.param.name; });

TEST(BlasDelegateTest, ScalesAndAddsRowsAndMatrices) {
  const Floats identity{1, 0, 0, 1};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    Shape sizes;
    Floats bias;
    float beta;
    Floats expected;
  } cases[] = {
      {{2}, {1, 2}, 10, {12, 20, 10, 22}},
      {{1, 2}, {1, 2}, 1, {3, 2, 1, 4}},
      {{2, 2}, {1, 2, 3, 4}, 1, {3, 2, 3, 6}},
      {{2}, {nan, nan}, 0, {2, 0, 0, 2}},  // with beta 0 the bias does not count, NaN or not
  };
  for (const auto& item : cases) {
    PlanWriter plan(2);
    plan.add(plan.argument(0), plan.argument(0), plan.argument(1), false, 2, item.beta);
    plan.store(0, 2);
    auto delegate = load(plan.finish());
    Argument x({2, 2}, identity), bias(item.sizes, item.bias), out({2, 2});
    ASSERT_TRUE(run(**delegate, {&x, &bias, &out}).ok());
    EXPECT_EQ(out.data, item.expected);
  }
}

TEST(BlasDelegateTest, ReadsAndWritesOtherLayouts) {
  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.argument(1));
  plan.store(0, 2);
  auto delegate = load(plan.finish());
  Argument a({2, 3}, {1, 4, 2, 5, 3, 6}, {1, 0});  // 1 2 3 / 4 5 6, columns first
  Argument b({3, 2}, {1, 0, 0, 1, 1, 1});
  Argument out({2, 2}, {}, {1, 0});
  ASSERT_TRUE(run(**delegate, {&a, &b, &out}).ok());
  EXPECT_EQ(out.data, (Floats{4, 10, 5, 11}));
}

TEST(BlasDelegateTest, ChangesAnInputAfterAllHasBeenRead) {
  // state = state @ x; out = old state @ state
  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.argument(1));
  plan.add(plan.argument(0), plan.product(0));
  plan.store(0, 0);
  plan.store(1, 2);
  auto delegate = load(plan.finish());
  Argument state({1, 1}, {3}), x({1, 1}, {2}), out({1, 1});
  ASSERT_TRUE(run(**delegate, {&state, &x, &out}).ok());
  EXPECT_EQ(state.data, (Floats{6}));
  EXPECT_EQ(out.data, (Floats{18}));
  ASSERT_TRUE(run(**delegate, {&state, &x, &out}).ok());
  EXPECT_EQ(state.data, (Floats{12}));
  EXPECT_EQ(out.data, (Floats{72}));
}

TEST(BlasDelegateTest, RefusesWrongArguments) {
  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.argument(1));
  plan.store(0, 2);
  auto delegate = load(plan.finish());
  Argument a({2, 3}), b({2, 3}), out({2, 3});
  const Error error = run(**delegate, {&a, &b, &out});
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_EQ(error.message(), "float32[2, 3] and float32[2, 3] cannot be multiplied");
  EXPECT_EQ(run(**delegate, {&a, &b}), Error::InvalidArgument);
  Argument number({1});
  number.value = EValue(1.0);
  EXPECT_EQ(run(**delegate, {&a, &number, &out}), Error::InvalidType);
  Argument c({3, 3}, Floats(9));
  EXPECT_TRUE(run(**delegate, {&a, &c, &out}).ok()) << "usable after errors";
}

TEST(BlasDelegateTest, RefusesWeightsThatAreMissingOrOfAnotherSize) {
  PlanWriter plan(1);
  plan.add(plan.argument(0), plan.constant("weight", {2, 2}));
  plan.store(0, 1);
  const auto bytes = plan.finish();
  EXPECT_EQ(load(bytes).error(), Error::NotFound);
  Blobs blobs;
  blobs.blobs = {{"weight", {1, 2, 3}}};
  EXPECT_EQ(load(bytes, blobs).error(), Error::InvalidProgram);
}

TEST(BlasPlanTest, RefusesWhatIsNoPlan) {
  EXPECT_EQ(parse_plan({}).error(), Error::InvalidProgram);
  const std::vector<uint8_t> zeros(64);
  EXPECT_EQ(parse_plan(zeros).error(), Error::InvalidProgram);

  PlanWriter forward(1);  // a product of itself
  forward.add(forward.argument(0), forward.product(0));
  EXPECT_EQ(parse_plan(forward.finish()).error(), Error::InvalidProgram);
  PlanWriter missing(1);  // an input that there is not
  missing.add(missing.argument(0), missing.argument(1));
  EXPECT_EQ(parse_plan(missing.finish()).error(), Error::InvalidProgram);
  PlanWriter empty(1);
  empty.add(empty.argument(0), 0);
  EXPECT_EQ(parse_plan(empty.finish()).error(), Error::InvalidProgram);
  PlanWriter source(1);
  source.add(source.argument(0), source.operand(static_cast<schema::Source>(9), 0));
  EXPECT_EQ(parse_plan(source.finish()).error(), Error::InvalidProgram);
  PlanWriter twice(1);  // two stores to one output
  twice.add(twice.argument(0), twice.argument(0));
  twice.store(0, 1);
  twice.store(0, 1);
  EXPECT_EQ(parse_plan(twice.finish()).error(), Error::InvalidProgram);
  PlanWriter gap(1);  // an output that nothing writes
  gap.add(gap.argument(0), gap.argument(0));
  gap.store(0, 0);
  gap.store(0, 2);
  EXPECT_EQ(parse_plan(gap.finish()).error(), Error::InvalidProgram);
}

TEST(BlasPlanTest, SurvivesFlippedBits) {
  PlanWriter plan(2);
  plan.add(plan.argument(0), plan.constant("weight", {2, 2}), plan.argument(1));
  plan.add(plan.product(0), plan.argument(1));
  plan.store(1, 2);
  const auto bytes = plan.finish();
  ASSERT_TRUE(parse_plan(bytes).ok());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ (1u << (bit % 8)));
    const auto parsed = parse_plan(flipped);
    EXPECT_TRUE(parsed.ok() || parsed.error() == Error::InvalidProgram) << bit;
  }
}

}  // namespace
}  // namespace pteron::blas
