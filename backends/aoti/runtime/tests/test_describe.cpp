// What a delegate says of itself, from its metadata alone.
#include <gtest/gtest.h>

#include <string>

#include "pteron/backends/aoti/runtime/describe.h"
#include "pteron/backends/aoti/runtime/tests/delegate_testing.h"

namespace pteron::aoti {
namespace {

TEST(DescribeDelegateTest, SaysWhatItIsForAndWhatItHolds) {
  MetadataChoices choices;
  choices.shims = {"aoti_torch_cpu_mm_out", "aoti_torch_delete_tensor_object"};
  choices.op_counts = {{"aten.mm.default", 1}, {"aten.relu.default", 3}};
  choices.boundaries = {"after %a: x", "before %b: y"};
  const Payload payload(choices);
  const std::string code = std::to_string(payload.data.blobs.at(payload.code_key).size());
  EXPECT_EQ(describe_delegate(payload.data, payload.processed_bytes()),
            "device    cpu\n"
            "isa       x86-64-v2\n"
            "threads   1\n"
            "torch     2.13.0\n"
            "code      " +
                code +
                " bytes\n"
                "weights   packed, 1 constants, 12 bytes\n"
                "largest   layer.bias float32[3], 12 bytes\n"
                "calls     4: 3 aten.relu.default, 1 aten.mm.default\n"
                "shims     aoti_torch_cpu_mm_out\n"
                "boundary  after %a: x\n"
                "          before %b: y\n");
}

TEST(DescribeDelegateTest, WithoutNeighboursItIsTheWholeMethod) {
  const Payload payload;
  const std::string text = describe_delegate(payload.data, payload.processed_bytes());
  EXPECT_NE(text.find("boundary  inputs and outputs of the method\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("shims"), std::string::npos) << text;
  EXPECT_EQ(text.find("calls"), std::string::npos) << text;
}

TEST(DescribeDelegateTest, NamesFaultsOfEarlyVersionsOfTheLowering) {
  MetadataChoices choices;
  choices.lowering_version = 0;
  const Payload early(choices), present;
  const std::string fault = "fault     matmuls and 1x1 convolutions with a part";
  const std::string said = describe_delegate(early.data, early.processed_bytes());
  EXPECT_NE(said.find(fault), std::string::npos) << said;
  const std::string now = describe_delegate(present.data, present.processed_bytes());
  EXPECT_EQ(now.find("fault"), std::string::npos) << now;
}

TEST(DescribeDelegateTest, SaysNothingOfWhatItCannotRead) {
  Payload payload;
  const std::string other = "not two lines";
  EXPECT_EQ(describe_delegate(payload.data,
                              {reinterpret_cast<const uint8_t*>(other.data()), other.size()}),
            "");
  payload.data.blobs[payload.metadata_key].resize(20);
  EXPECT_EQ(describe_delegate(payload.data, payload.processed_bytes()), "");
  payload.data.blobs.erase(payload.metadata_key);
  EXPECT_EQ(describe_delegate(payload.data, payload.processed_bytes()), "");
}

}  // namespace
}  // namespace pteron::aoti
