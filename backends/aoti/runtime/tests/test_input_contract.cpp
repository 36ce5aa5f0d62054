#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/contract.h"

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
  Result<Contract> contract = Contract::make(two_inputs());
  ASSERT_TRUE(contract.ok()) << contract.error().message();
  contract->begin();
  EXPECT_TRUE(check(*contract, 0, tensor({5, 4})).ok());
  EXPECT_TRUE(check(*contract, 1, tensor({11})).ok());
  contract->begin();
  EXPECT_TRUE(check(*contract, 0, tensor({5, 4})).ok());
  Error error = check(*contract, 1, tensor({13}));
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_NE(error.message().find("s0"), std::string::npos) << error.message();
  contract->begin();
  EXPECT_EQ(check(*contract, 1, tensor({12})), Error::InvalidArgument);  // 2 * s0 + 1 is odd
}

TEST(Contract, BoundsRanksAndTypes) {
  Result<Contract> contract = Contract::make(two_inputs());
  ASSERT_TRUE(contract.ok());
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{0, 4}, {9, 4}, {5, 3}, {5}, {5, 4, 1}}) {
    contract->begin();
    EXPECT_EQ(check(*contract, 0, tensor(sizes)), Error::InvalidArgument);
  }
  contract->begin();
  EXPECT_EQ(check(*contract, 0, tensor({5, 4}, ScalarType::Double)), Error::InvalidType);
}

TEST(Contract, ExpectsTheLayoutItWasMadeFor) {
  Metadata metadata;
  metadata.inputs = {{kFloat, {{1, 8, 0, 1, 0}, fixed(4)}, {1, 8}, false}};  // columns first
  metadata.num_symbols = 1;
  Result<Contract> contract = Contract::make(metadata);
  ASSERT_TRUE(contract.ok()) << contract.error().message();
  contract->begin();
  bool fits = true;
  int64_t strides[slim::kMaxDims];
  EXPECT_TRUE(contract->check_input(0, tensor({5, 4}), strides, &fits).ok());
  EXPECT_FALSE(fits);
  EXPECT_EQ(strides[0], 1);
  EXPECT_EQ(strides[1], 5);
  const uint8_t order[] = {1, 0};
  const int64_t sizes[] = {5, 4};
  contract->begin();
  EXPECT_TRUE(
      check(*contract, 0, *Tensor::make(ScalarType::Float, sizes, order, nullptr), &fits).ok());
  EXPECT_TRUE(fits);
  contract->begin();
  EXPECT_TRUE(check(*contract, 0, tensor({1, 4}), &fits).ok());  // a stride that leads nowhere
  EXPECT_FALSE(contract->is_mutated(0));
}

TEST(Contract, GapsNeedFixedSizes) {
  Metadata metadata;
  metadata.inputs = {{kFloat, {fixed(2), fixed(3)}, {8, 2}, true}};
  Result<Contract> contract = Contract::make(metadata);
  ASSERT_TRUE(contract.ok());
  EXPECT_TRUE(contract->is_mutated(0));
  bool fits = true;
  EXPECT_TRUE(check(*contract, 0, tensor({2, 3}), &fits).ok());
  EXPECT_FALSE(fits);
  metadata.inputs[0].dims[0] = {1, 2, 0, 1, 0};
  metadata.num_symbols = 1;
  EXPECT_EQ(Contract::make(metadata).error(), Error::NotSupported);
}

TEST(Contract, OutputsAreCheckedToo) {
  Result<Contract> contract = Contract::make(two_inputs());
  ASSERT_TRUE(contract.ok());
  const int64_t good = 8, bad = 9;
  EXPECT_TRUE(contract->check_output(0, kFloat, Span<const int64_t>(&good, 1)).ok());
  EXPECT_FALSE(contract->check_output(0, kFloat, Span<const int64_t>(&bad, 1)).ok());
  EXPECT_FALSE(contract->check_output(0, slim::DType::Half, Span<const int64_t>(&good, 1)).ok());
  EXPECT_FALSE(contract->check_output(0, kFloat, {}).ok());
}

}  // namespace
}  // namespace pteron::aoti
