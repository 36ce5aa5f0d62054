// Files that are cut off, bent or of another kind.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/program_reader/file_layout.h"

namespace pteron {
namespace {

using testing::Bytes;
using testing::WriteOptions;

Bytes everything(bool integrity_table = true) {
  WriteOptions options;
  options.integrity_table = integrity_table;
  return testing::write_program(testing::EverythingProgram::make().program, options);
}

Bytes data_file() { return testing::write_tensor_data(testing::EverythingProgram::make().data); }

Error load(const Bytes& bytes, Verification verification = Verification::InternalConsistency) {
  LoadOptions options;
  options.verification = verification;
  auto program = Program::load(bytes, nullptr, options);
  return program.ok() ? Error(Error::Ok) : program.take_error();
}

Error load_data(const Bytes& bytes) {
  static const std::string program = testing::write_file("layout.pte", testing::write_program([] {
                                                           testing::ProgramSpec spec;
                                                           spec.add_method("forward");
                                                           return spec;
                                                         }()));
  LoadOptions options;
  options.verification = Verification::Full;
  options.data_paths = {testing::write_file("layout.ptd", bytes)};
  auto loaded = Program::load(program, options);
  return loaded.ok() ? Error(Error::Ok) : loaded.take_error();
}

template <typename T>
Bytes with(Bytes bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

void expect_message(const Error& error, const std::string& text) {
  EXPECT_FALSE(error.ok()) << "expected: " << text;
  EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
}

TEST(ContainerTest, EveryPrefixOfAFileIsRefused) {
  for (const bool integrity_table : {true, false}) {
    const Bytes whole = everything(integrity_table);
    ASSERT_TRUE(load(whole).ok()) << load(whole).message();
    for (size_t length = 0; length < whole.size(); ++length) {
      const Error error = load(Bytes(whole.begin(), whole.begin() + length));
      ASSERT_EQ(error, Error::InvalidProgram) << length << " of " << whole.size() << " bytes";
    }
  }
}

TEST(ContainerTest, EveryPrefixOfADataFileIsRefused) {
  const Bytes whole = data_file();
  ASSERT_TRUE(load_data(whole).ok()) << load_data(whole).message();
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_EQ(load_data(Bytes(whole.begin(), whole.begin() + length)), Error::InvalidExternalData)
        << length << " of " << whole.size() << " bytes";
  }
}

// Bits that a digest covers: the FlatBuffers part (but for the digests, which the segments answer
// for) and the segments. Zeros between them cover nothing.
TEST(ContainerTest, EveryFlippedBitIsFound) {
  const Bytes whole = everything();
  auto program = value_of(Program::load(whole));
  uint64_t flatbuffer_nbytes;
  std::memcpy(&flatbuffer_nbytes, whole.data() + 16, 8);
  std::vector<bool> covered(whole.size());
  for (size_t i = 0; i < flatbuffer_nbytes; ++i) covered[i] = true;
  for (const SegmentMeta& segment : program->segments()) {
    for (size_t i = 0; i < segment.nbytes; ++i) covered[segment.offset + i] = true;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!covered[i]) continue;
    for (int bit = 0; bit < 8; ++bit) {
      Bytes flipped = whole;
      flipped[i] ^= static_cast<uint8_t>(1 << bit);
      ASSERT_EQ(load(flipped, Verification::Full), Error::InvalidProgram)
          << "bit " << bit << " of byte " << i;
    }
  }
}

TEST(ContainerTest, EveryFlippedBitOfADataFileIsFound) {
  const Bytes whole = data_file();
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes flipped = whole;
    flipped[i] ^= static_cast<uint8_t>(1 << i % 8);
    const Error error = load_data(flipped);
    // What lies between the parts is not covered.
    if (error.ok()) {
      ASSERT_EQ(whole[i], 0) << i;
      continue;
    }
    ASSERT_TRUE(error == Error::InvalidExternalData || error == Error::InvalidProgram)
        << error.message();
  }
}

TEST(ContainerTest, AFlippedWeightIsFoundOnlyUnderFullVerification) {
  Bytes bytes = everything();
  const auto segments = (*Program::load(bytes))->segments();
  bytes[segments[0].offset] ^= 1;
  EXPECT_TRUE(load(bytes, Verification::InternalConsistency).ok());
  expect_message(load(bytes, Verification::Full), "segment 0 (16 bytes at ");
}

TEST(ContainerTest, OtherFilesAreToldApart) {
  expect_message(load(Bytes(100)), "not a program file: its identifier is \"????\"");
  expect_message(load(with(everything(), 4, std::array<char, 4>{'E', 'T', '1', '3'})),
                 "its format is \"ET13\", this runtime reads ET12");
  expect_message(load(Bytes(10)), "10 bytes are too few");
  expect_message(load_data(with(data_file(), 4, std::array<char, 4>{'F', 'T', '0', '2'})),
                 "its format is \"FT02\", this runtime reads FT01");
  expect_message(load_data(with(data_file(), 8, std::array<char, 4>{'e', 'h', '0', '0'})),
                 "its header begins with \"eh00\", expected \"FH01\"");
}

TEST(ContainerTest, HeadersThatLieAreRefused) {
  const Bytes plain = everything(false);
  expect_message(load(with<uint32_t>(plain, 12, 23)), "its header has 23 bytes");
  expect_message(load(with<uint32_t>(plain, 12, 1 << 30)), "longer than its FlatBuffers part");
  expect_message(load(with<uint32_t>(plain, 12, 40)), "no integrity table");
  expect_message(load(with<uint64_t>(plain, 16, uint64_t{1} << 40)), "truncated");
  expect_message(load(with<uint64_t>(plain, 16, ~uint64_t{0})), "truncated");
  expect_message(load(with<uint64_t>(plain, 24, 64)), "within the FlatBuffers part");
  expect_message(load(with<uint64_t>(plain, 24, ~uint64_t{0})), "truncated");
  expect_message(load(with<uint64_t>(plain, 32, ~uint64_t{0})), "truncated");
  expect_message(load(with<uint64_t>(plain, 24, 0)), "does not say where");
  // A header of the oldest form knows no size of the data.
  EXPECT_TRUE(load(with<uint32_t>(plain, 12, 24)).ok());

  const Bytes checked = everything();
  uint32_t length;
  std::memcpy(&length, checked.data() + 12, 4);
  expect_message(load(with<uint32_t>(checked, 12, 32)), "does not cover");
  expect_message(load(with<uint32_t>(checked, 12, length - 32)), "does not fit");
  expect_message(load(with<uint32_t>(checked, 44, 1)), "does not fit");

  const Bytes data = data_file();
  expect_message(load_data(with<uint32_t>(data, 12, 39)), "its header has 39 bytes");
  expect_message(load_data(with<uint64_t>(data, 16, ~uint64_t{0})), "overflows");
  expect_message(load_data(with<uint64_t>(data, 24, uint64_t{1} << 40)), "truncated");
}

TEST(ContainerTest, SegmentsBeyondTheFileAreRefused) {
  for (const testing::RangeSpec range : {testing::RangeSpec{0, 1 << 30},
                                         {uint64_t{1} << 40, 1},
                                         {~uint64_t{0}, 2},
                                         {1, ~uint64_t{0}}}) {
    testing::ProgramSpec spec;
    spec.add_method("forward");
    spec.add_segment(Bytes(100));
    spec.false_ranges[0] = range;
    expect_message(load(testing::write_program(spec)), "goes beyond the 100 bytes of segments");
  }
}

}  // namespace
}  // namespace pteron
