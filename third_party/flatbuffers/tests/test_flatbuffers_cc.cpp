// The generated header and the C++ runtime: a round trip, and the verifier on damaged bytes.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/third_party/flatbuffers/tests/monster_generated.h"

namespace pteron::monsters {
namespace {

std::vector<uint8_t> serialize_orc() {
  flatbuffers::FlatBufferBuilder builder;
  const auto axe = CreateWeaponDirect(builder, "axe", 5);
  const std::vector<flatbuffers::Offset<Weapon>> weapons = {axe};
  const std::vector<uint8_t> inventory = {1, 2, 3};
  builder.ForceVectorAlignment(inventory.size(), sizeof(uint8_t), 16);
  const auto items = builder.CreateVector(inventory);
  const auto list = builder.CreateVector(weapons);
  const auto name = builder.CreateString("orc");
  FinishMonsterBuffer(builder, CreateMonster(builder, name, 100, Kind::Large, list, items));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

TEST(FlatbuffersCc, RoundTrip) {
  const std::vector<uint8_t> bytes = serialize_orc();
  ASSERT_TRUE(MonsterBufferHasIdentifier(bytes.data()));
  const Monster* orc = GetMonster(bytes.data());
  EXPECT_EQ(orc->name()->str(), "orc");
  EXPECT_EQ(orc->hp(), 100);
  EXPECT_EQ(orc->kind(), Kind::Large);
  ASSERT_EQ(orc->weapons()->size(), 1u);
  EXPECT_EQ(orc->weapons()->Get(0)->damage(), 5);
  EXPECT_EQ((orc->inventory()->Data() - bytes.data()) % 16, 0);
}

TEST(FlatbuffersCc, VerifierAcceptsTheWholeAndRefusesEveryPrefix) {
  const std::vector<uint8_t> bytes = serialize_orc();
  flatbuffers::Verifier whole(bytes.data(), bytes.size());
  EXPECT_TRUE(VerifyMonsterBuffer(whole));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> prefix(bytes.begin(), bytes.begin() + size);
    flatbuffers::Verifier verifier(prefix.data(), prefix.size());
    EXPECT_FALSE(VerifyMonsterBuffer(verifier)) << "prefix of " << size << " bytes";
  }
}

}  // namespace
}  // namespace pteron::monsters
