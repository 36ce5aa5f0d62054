#include <gtest/gtest.h>

#include <string>

#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/platform/sha256.h"
#include "pteron/runtime/program_reader/data_map.h"

namespace pteron {
namespace {

using testing::Bytes;

class DataMapTest : public ::testing::Test {
 protected:
  DataMapTest() {
    for (const char* const segment : {"first", "second"}) {
      const Sha256Digest digest = sha256(testing::text(segment));
      digests_.insert(digests_.end(), digest.begin(), digest.end());
    }
    file_ = testing::text("..first...second");
    segments_ = Segments(file_, {{2, 5}, {10, 6}}, digests_.data(), "file");
  }

  static std::string text_of(Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

  Bytes file_;
  Bytes digests_;
  Segments segments_;
  DataMap map_;
  ErrorList errors_;
};

TEST_F(DataMapTest, Examples) {
  map_.add("b", {&segments_, 0, nullptr});
  map_.add("a", {&segments_, 1, nullptr});
  map_.add("c", {&segments_, 0, nullptr});  // keys may share a segment
  map_.finish(&errors_);
  EXPECT_TRUE(errors_.empty());
  EXPECT_EQ(text_of(*map_.get_data("a")), "second");
  EXPECT_EQ(text_of(*map_.get_verified("b")), "first");
  EXPECT_EQ(map_.num_keys(), 3u);
  EXPECT_EQ(*map_.get_key(0), "a");
  EXPECT_EQ(*map_.get_key(2), "c");
  EXPECT_EQ(map_.get_key(3).error(), Error::NotFound);
}

TEST_F(DataMapTest, UnknownKeysAreNamed) {
  map_.add("a", {&segments_, 0, nullptr});
  map_.finish(&errors_);
  for (const auto& result : {map_.get_data("x"), map_.get_verified("x")}) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error(), Error::NotFound);
    EXPECT_NE(result.error().message().find("\"x\" among 1 keys"), std::string::npos);
  }
}

TEST_F(DataMapTest, AKeyIsThereOnce) {
  map_.add("a", {&segments_, 0, nullptr});
  map_.add("a", {&segments_, 1, nullptr});
  map_.finish(&errors_);
  EXPECT_EQ(errors_.count(), 1u);
  EXPECT_EQ(text_of(*map_.get_data("a")), "first");
  EXPECT_EQ(map_.num_keys(), 1u);
}

TEST_F(DataMapTest, DamageIsFoundByVerifyingOnly) {
  file_[3] ^= 1;
  map_.add("a", {&segments_, 0, nullptr});
  map_.add("b", {&segments_, 1, nullptr});
  map_.finish(&errors_);
  EXPECT_TRUE(map_.get_data("a").ok());
  EXPECT_TRUE(map_.get_verified("b").ok());
  for (int i = 0; i < 2; ++i) {
    const auto bytes = map_.get_verified("a");
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error(), Error::InvalidProgram);
  }
  file_[3] ^= 1;
  EXPECT_FALSE(map_.get_verified("a").ok()) << "the verdict stands";
}

TEST_F(DataMapTest, FilesWithoutDigestsPass) {
  const Segments plain(file_, {{2, 5}}, nullptr, "plain");
  map_.add("a", {&plain, 0, nullptr});
  map_.finish(&errors_);
  EXPECT_TRUE(map_.get_verified("a").ok());
  EXPECT_EQ(plain.digest(0), "");
  EXPECT_EQ(segments_.digest(0), to_hex(sha256(testing::text("first"))));
}

}  // namespace
}  // namespace pteron
