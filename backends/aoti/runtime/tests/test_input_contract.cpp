#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/contract.h"
#include "pteron/backends/aoti/schema/metadata_generated.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron::aoti {
namespace {

constexpr slim::DType kFloat = slim::DType::Float;

DimContract fixed(int64_t size) { return {size, size, -1, 1, 0}; }

// Inputs [s0, 4] and [2 * s0 + 1], with s0 in 1..8.
Metadata two_inputs() {
  Metadata metadata;
  metadata.inputs = {{kFloat, {{1, 8, 0, 1, 0}, fixed(4)}, {4, 1}, false},
                     {kFloat, {{3, 17, 0, 2, 1}}, {1}, false}};
  metadata.outputs = {{kFloat, {{1, 8, 0, 1, 0}}, {1}, false}};
  metadata.num_symbols = 1;
  return metadata;
}

Tensor tensor(std::vector<int64_t> sizes, ScalarType dtype = ScalarType::Float) {
  return *Tensor::make(dtype, sizes, nullptr);
}

Error check(Contract& contract, size_t i, const Tensor& tensor, bool* fits = nullptr) {
  int64_t strides[slim::kMaxDims];
  bool ignored = false;
  return contract.check_input(i, tensor, strides, fits ? fits : &ignored);
}

TEST(Contract, EqualSymbolsMustAgree) {
  auto contract = value_of(Contract::make(two_inputs()));
  contract.begin();
  EXPECT_TRUE(check(contract, 0, tensor({5, 4})).ok());
  EXPECT_TRUE(check(contract, 1, tensor({11})).ok());
  contract.begin();
  EXPECT_TRUE(check(contract, 0, tensor({5, 4})).ok());
  Error error = check(contract, 1, tensor({13}));
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_NE(error.message().find("s0"), std::string::npos) << error.message();
  contract.begin();
  EXPECT_EQ(check(contract, 1, tensor({12})), Error::InvalidArgument);  // 2 * s0 + 1 is odd
}

TEST(Contract, BoundsRanksAndTypes) {
  auto contract = value_of(Contract::make(two_inputs()));
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{0, 4}, {9, 4}, {5, 3}, {5}, {5, 4, 1}}) {
    contract.begin();
    EXPECT_EQ(check(contract, 0, tensor(sizes)), Error::InvalidArgument);
  }
  contract.begin();
  EXPECT_EQ(check(contract, 0, tensor({5, 4}, ScalarType::Double)), Error::InvalidType);
}

TEST(Contract, ExpectsTheLayoutItWasMadeFor) {
  Metadata metadata;
  metadata.inputs = {{kFloat, {{1, 8, 0, 1, 0}, fixed(4)}, {1, 8}, false}};  // columns first
  metadata.num_symbols = 1;
  auto contract = value_of(Contract::make(metadata));
  contract.begin();
  bool fits = true;
  int64_t strides[slim::kMaxDims];
  EXPECT_TRUE(contract.check_input(0, tensor({5, 4}), strides, &fits).ok());
  EXPECT_FALSE(fits);
  EXPECT_EQ(strides[0], 1);
  EXPECT_EQ(strides[1], 5);
  const uint8_t order[] = {1, 0};
  const int64_t sizes[] = {5, 4};
  contract.begin();
  EXPECT_TRUE(
      check(contract, 0, *Tensor::make(ScalarType::Float, sizes, order, nullptr), &fits).ok());
  EXPECT_TRUE(fits);
  contract.begin();
  EXPECT_TRUE(check(contract, 0, tensor({1, 4}), &fits).ok());  // a stride that leads nowhere
  EXPECT_FALSE(contract.is_mutated(0));
}

TEST(Contract, GapsNeedFixedSizes) {
  Metadata metadata;
  metadata.inputs = {{kFloat, {fixed(2), fixed(3)}, {8, 2}, true}};
  auto contract = value_of(Contract::make(metadata));
  EXPECT_TRUE(contract.is_mutated(0));
  bool fits = true;
  EXPECT_TRUE(check(contract, 0, tensor({2, 3}), &fits).ok());
  EXPECT_FALSE(fits);
  metadata.inputs[0].dims[0] = {1, 2, 0, 1, 0};
  metadata.num_symbols = 1;
  EXPECT_EQ(Contract::make(metadata).error(), Error::NotSupported);
}

TEST(Contract, OutputsAreCheckedToo) {
  auto contract = value_of(Contract::make(two_inputs()));
  const int64_t good = 8, bad = 9;
  EXPECT_TRUE(contract.check_output(0, kFloat, Span<const int64_t>(&good, 1)).ok());
  EXPECT_FALSE(contract.check_output(0, kFloat, Span<const int64_t>(&bad, 1)).ok());
  EXPECT_FALSE(contract.check_output(0, slim::DType::Half, Span<const int64_t>(&good, 1)).ok());
  EXPECT_FALSE(contract.check_output(0, kFloat, {}).ok());
}

using Code = std::vector<int64_t>;

// Inputs [s0] and [s1], each in 0..INT64_MAX, under one condition.
bool holds(const std::string& relation, Code left, Code right, int64_t a, int64_t b) {
  Metadata metadata;
  for (const int32_t symbol : {0, 1}) {
    metadata.inputs.push_back({kFloat, {{0, INT64_MAX, symbol, 1, 0}}, {1}, false});
  }
  metadata.num_symbols = 2;
  metadata.conditions.push_back({relation, std::move(left), std::move(right), "a is to b"});
  Result<Contract> contract = Contract::make(metadata);
  EXPECT_TRUE(contract.ok()) << contract.error().message();
  contract->begin();
  EXPECT_TRUE(check(*contract, 0, tensor({a})).ok());
  EXPECT_TRUE(check(*contract, 1, tensor({b})).ok());
  Error error = contract->check_together();
  if (!error.ok()) {
    EXPECT_EQ(error, Error::InvalidArgument);
    EXPECT_NE(error.message().find("a is to b"), std::string::npos) << error.message();
  }
  return error.ok();
}

TEST(Contract, Conditions) {
  const Code a{1, 0}, b{1, 1};
  for (const int64_t x : {2, 3, 4}) {
    EXPECT_EQ(holds("==", a, b, x, 3), x == 3);
    EXPECT_EQ(holds("!=", a, b, x, 3), x != 3);
    EXPECT_EQ(holds("<", a, b, x, 3), x < 3);
    EXPECT_EQ(holds("<=", a, b, x, 3), x <= 3);
    EXPECT_EQ(holds(">", a, b, x, 3), x > 3);
    EXPECT_EQ(holds(">=", a, b, x, 3), x >= 3);
  }
  EXPECT_TRUE(holds("==", {1, 0, 0, -7, 2}, {0, -4}, 3, 0));
  EXPECT_TRUE(holds("==", {1, 0, 1, 1, 3}, {0, 12}, 3, 4));
  EXPECT_TRUE(holds("==", {1, 0, 0, -7, 2, 0, 3, 4}, {0, -2}, 3, 0));  // -4 // 3
  EXPECT_TRUE(holds("==", {1, 0, 0, -7, 2, 0, 3, 5}, {0, 2}, 3, 0));   // -4 % 3
  EXPECT_TRUE(holds("==", {1, 0, 0, -2, 4}, {0, -2}, 3, 0));           // 3 // -2
  EXPECT_TRUE(holds("==", {1, 0, 0, -2, 5}, {0, -1}, 3, 0));           // 3 % -2
  EXPECT_TRUE(holds("==", {1, 0, 1, 1, 6}, {0, 4}, 3, 4));
  EXPECT_TRUE(holds("==", {1, 0, 1, 1, 7}, {0, 3}, 3, 4));
  // What cannot be computed does not hold.
  EXPECT_FALSE(holds("!=", {1, 0, 0, INT64_MAX, 2}, {0, 0}, 3, 4));
  EXPECT_FALSE(holds("!=", {1, 0, 0, INT64_MAX, 3}, {0, 0}, 3, 4));
  EXPECT_FALSE(holds("!=", {1, 0, 0, 0, 4}, {0, 7}, 3, 4));
  EXPECT_FALSE(holds("!=", {0, INT64_MIN, 0, -1, 5}, {0, 7}, 3, 4));
}

// A blob with one input [s0] and a condition on it.
Error parse(const std::string& relation, const Code& left, const Code& right) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<flatbuffers::Offset<schema::Dim>> dims{schema::CreateDim(builder, 0, 9, 0)};
  const Code strides{1};
  const std::vector<flatbuffers::Offset<schema::TensorContract>> inputs{
      schema::CreateTensorContractDirect(builder, 6, &dims, &strides)};
  const std::vector<flatbuffers::Offset<schema::Condition>> conditions{
      schema::CreateConditionDirect(builder, relation.c_str(), &left, &right)};
  const auto digest = builder.CreateVector(std::vector<uint8_t>(32));
  const auto all_inputs = builder.CreateVector(inputs);
  const auto all_conditions = builder.CreateVector(conditions);
  schema::ModelMetadataBuilder metadata(builder);
  metadata.add_so_digest(digest);
  metadata.add_inputs(all_inputs);
  metadata.add_conditions(all_conditions);
  builder.Finish(metadata.Finish(), "PTM1");
  const Span<const uint8_t> bytes(builder.GetBufferPointer(), builder.GetSize());
  std::vector<int64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* const begin = reinterpret_cast<const uint8_t*>(aligned.data());
  Result<Metadata> parsed = Metadata::parse({begin, bytes.size()});
  return parsed.ok() ? Error(Error::Ok) : parsed.take_error();
}

TEST(Contract, ConditionsOfAFileAreChecked) {
  const Code good{1, 0};
  Code deep;
  for (int i = 0; i < 33; ++i) deep.insert(deep.end(), {0, 1});
  deep.insert(deep.end(), 32, 2);
  EXPECT_TRUE(parse("==", good, good).ok()) << parse("==", good, good).message();
  for (const Code& bad : std::vector<Code>{{},
                                           {0},
                                           {1},
                                           {1, 1},
                                           {1, -1},
                                           {2},
                                           {0, 1, 2},
                                           {0, 1, 0, 2},
                                           {0, 1, 0, 2, 8},
                                           {0, 1, 0, 2, -1},
                                           {0, 1, 0, 1, 2, 2},
                                           deep}) {
    EXPECT_EQ(parse("==", bad, good), Error::InvalidProgram);
    EXPECT_EQ(parse("==", good, bad), Error::InvalidProgram);
  }
  EXPECT_EQ(parse("=", good, good), Error::InvalidProgram);
  EXPECT_EQ(parse("", good, good), Error::InvalidProgram);
}

}  // namespace
}  // namespace pteron::aoti
