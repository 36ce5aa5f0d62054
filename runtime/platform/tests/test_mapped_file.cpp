#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "pteron/runtime/platform/mapped_file.h"

namespace pteron {
namespace {

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(MappedFileTest, Examples) {
  Result<MappedFile> file = MappedFile::open(write_file("mapped", "hello"));
  ASSERT_TRUE(file.ok()) << file.error().message();
  const Span<const uint8_t> bytes = file->bytes();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "hello");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  Result<MappedFile> file = MappedFile::open(write_file("empty", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, MovingKeepsTheBytes) {
  Result<MappedFile> file = MappedFile::open(write_file("moved", "hello"));
  ASSERT_TRUE(file.ok());
  const uint8_t* const data = file->bytes().data();
  MappedFile other(std::move(*file));
  EXPECT_EQ(other.bytes().data(), data);
  EXPECT_TRUE(file->bytes().empty());
  MappedFile third;
  third = std::move(other);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(third.bytes()[4], 'o');
}

TEST(MappedFileTest, SaysWhatIsWrongWithThePath) {
  const std::string missing = testing::TempDir() + "/no_such_file";
  Result<MappedFile> file = MappedFile::open(missing);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error(), Error::NotFound);
  EXPECT_NE(file.error().message().find(missing), std::string::npos);

  Result<MappedFile> folder = MappedFile::open(testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error(), Error::AccessFailed);
  EXPECT_NE(folder.error().message().find("folder"), std::string::npos);
}

}  // namespace
}  // namespace pteron
