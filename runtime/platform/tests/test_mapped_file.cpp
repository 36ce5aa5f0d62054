#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/platform/mapped_file.h"

namespace pteron {
namespace {

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(MappedFileTest, Examples) {
  auto file = value_of(MappedFile::open(write_file("mapped", "hello")));
  const Span<const uint8_t> bytes = file.bytes();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "hello");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
}

TEST(MappedFileTest, APathWithANulIsNotThatOfItsBeginning) {
  const std::string path = write_file("mapped", "hello");
  const auto file = MappedFile::open(path + std::string("\0.pte", 5));
  EXPECT_EQ(file.error(), Error::NotFound);
  EXPECT_NE(file.error().message().find("NUL character"), std::string::npos);
}

TEST(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  auto file = value_of(MappedFile::open(write_file("empty", "")));
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFileTest, MovingKeepsTheBytes) {
  auto file = value_of(MappedFile::open(write_file("moved", "hello")));
  const uint8_t* const data = file.bytes().data();
  MappedFile other(std::move(file));
  EXPECT_EQ(other.bytes().data(), data);
  EXPECT_TRUE(file.bytes().empty());
  MappedFile third;
  third = std::move(other);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(third.bytes()[4], 'o');
}

#ifdef __linux__
// What the system knows of the mapping at `data`, as two letters each.
std::string flags_of_mapping(const void* data) {
  char address[32];
  std::snprintf(address, sizeof address, "%lx-", reinterpret_cast<unsigned long>(data));
  std::ifstream mappings("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(mappings, line);) {
    found |= line.rfind(address, 0) == 0;
    if (found && line.rfind("VmFlags:", 0) == 0) return line;
  }
  return "";
}

TEST(MappedFileTest, LargeFilesAreReadInHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this system has no transparent huge pages";
  }
  const std::string path = write_file("large", "hello");
  for (const int megabytes : {1, 64}) {
    ASSERT_EQ(::truncate(path.c_str(), off_t{megabytes} << 20), 0);
    auto file = value_of(MappedFile::open(path));
    const std::string flags = flags_of_mapping(file.bytes().data());
    EXPECT_EQ(flags.find(" hg") != std::string::npos, megabytes == 64) << flags;
  }
}
#endif

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

  const std::string pipe = testing::TempDir() + "/pipe";
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/null")}) {
    Result<MappedFile> special = MappedFile::open(path);  // and nobody ever writes to the pipe
    ASSERT_FALSE(special.ok());
    EXPECT_EQ(special.error(), Error::AccessFailed);
    EXPECT_NE(special.error().message().find("no regular file"), std::string::npos);
  }
}

}  // namespace
}  // namespace pteron
