#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/tools/runner/safetensors.h"

namespace pteron::runner {
namespace {

class Safetensors : public testing::Test {
 protected:
  // A file with this header and so many bytes after it.
  std::string write(const std::string& header, size_t data_nbytes) {
    std::string bytes(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    bytes += header;
    for (size_t i = 0; i < data_nbytes; ++i) bytes += static_cast<char>(i);
    return write_bytes(bytes);
  }
  std::string write_bytes(const std::string& bytes) {
    const std::string path = testing::TempDir() + "/in.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string problem(const std::string& header, size_t data_nbytes) {
    Result<SafetensorsFile> file = SafetensorsFile::read(write(header, data_nbytes));
    return file.ok() ? "" : file.error().message();
  }
};

TEST_F(Safetensors, RoundTrip) {
  float x[] = {1, 2, 3, 4, 5, 6};
  bool flag[] = {true};
  const int64_t sizes[] = {2, 3};
  View turned = contiguous_view(ScalarType::Float, sizes, x);
  std::swap(turned.sizes[0], turned.sizes[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  const std::vector<NamedTensor> tensors = {
      {"flag", contiguous_view(ScalarType::Bool, Span<const int64_t>(), flag)}, {"x\"\n", turned}};
  const std::string path = testing::TempDir() + "/out.safetensors";
  auto out = value_of(AtomicFile::create(path));
  ASSERT_TRUE(write_safetensors(tensors, {{"note", "a \\ b"}}, out).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(out.commit().ok());

  auto file = value_of(SafetensorsFile::read(path));
  ASSERT_EQ(file.tensors().size(), 2u);
  const NamedTensor& read = file.tensors()[1];
  EXPECT_EQ(read.name, "x\"\n");
  EXPECT_EQ(read.view.sizes[0], 3);
  const float expected[] = {1, 4, 2, 5, 3, 6};
  EXPECT_EQ(std::memcmp(read.view.data, expected, sizeof expected), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.view.data) % 4, 0u);
  EXPECT_EQ(file.tensors()[0].view.dtype, ScalarType::Bool);
}

TEST_F(Safetensors, EveryDtypeButComplex128HasAName) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits)  \
  {                                                                                    \
    uint64_t value[2] = {};                                                            \
    const View view = contiguous_view(ScalarType::name, Span<const int64_t>(), value); \
    const std::string path = testing::TempDir() + "/dtype.safetensors";                \
    Result<AtomicFile> out = AtomicFile::create(path);                                 \
    const Error written = write_safetensors({{"x", view}}, {}, *out);                  \
    if (ScalarType::name == ScalarType::ComplexDouble) {                               \
      EXPECT_EQ(written, Error::NotSupported);                                         \
    } else {                                                                           \
      ASSERT_TRUE(written.ok() && out->commit().ok());                                 \
      Result<SafetensorsFile> file = SafetensorsFile::read(path);                      \
      ASSERT_TRUE(file.ok()) << #name << file.error().message();                       \
      EXPECT_EQ(file->tensors()[0].view.dtype, ScalarType::name);                      \
    }                                                                                  \
  }
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
}

TEST_F(Safetensors, NamesInNaturalOrder) {
  auto file = value_of(SafetensorsFile::read(write(
      R"({"b10":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
          "b9":{"shape":[],"dtype":"U8","data_offsets":[1,2]},
          "__metadata__":{"k":"v"},
          "a":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]}})",
      2)));
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b9");
  EXPECT_EQ(file.tensors()[2].name, "b10");
  EXPECT_EQ(*file.tensors()[1].view.data, std::byte{1});
}

TEST_F(Safetensors, WhatIsWrongIsSaid) {
  const auto says = [this](const std::string& header, size_t nbytes, const char* text) {
    EXPECT_NE(problem(header, nbytes).find(text), std::string::npos) << text;
  };
  const auto one = [](const char* fields) { return std::string("{\"x\":{") + fields + "}}"; };
  says(one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), 4,
       "tensor \"x\" has unknown dtype \"F31\"");
  says(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3, "outside the file's 3 bytes");
  says(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5, "end at byte 4 of 5");
  says(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       "float32[2] of 8 bytes, but has 4");
  says(one(R"("dtype":"F32","shape":[1])"), 0, "lacks");
  says(one(R"("dtype":"F32","shape":[1],"offset":0)"), 0, "unknown field \"offset\"");
  says(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                        "y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "starts at byte 0, expected 1");
  says(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                        "x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "two tensors are called \"x\"");
}

TEST_F(Safetensors, OtherFilesAreRefused) {
  for (const char* header :
       {"", "[]", "{", "{}x", R"({"x":1})", R"({"x":[{}]})", R"({"x":{"dtype":1}})",
        R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807],
                                 "data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
        R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
        R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0]}})"}) {
    EXPECT_NE(problem(header, 0), "") << header;
  }
  for (const std::string& bytes : {std::string(), std::string("1234567"), std::string(8, '\xff')}) {
    EXPECT_EQ(SafetensorsFile::read(write_bytes(bytes)).error().code(), Error::InvalidArgument);
  }
  EXPECT_EQ(SafetensorsFile::read("/no/such/file").error().code(), Error::NotFound);
}

// Random damage is refused or read, and never more than that (run it under a sanitizer).
TEST_F(Safetensors, DamagedHeaders) {
  const std::string header =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = header;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    Result<SafetensorsFile> file = SafetensorsFile::read(write(damaged, 8));
    if (!file.ok()) continue;
    for (const NamedTensor& tensor : file->tensors()) {
      std::vector<std::byte> copy(static_cast<size_t>(tensor.view.numel()) *
                                  element_size(tensor.view.dtype));
      const View to = contiguous_view(tensor.view.dtype, tensor.view.shape(), copy.data());
      EXPECT_TRUE(copy_elements(tensor.view, to).ok());
    }
  }
}

TEST(NaturalOrder, DigitsAreNumbers) {
  EXPECT_TRUE(natural_less("input_2", "input_10"));
  EXPECT_FALSE(natural_less("input_10", "input_2"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("x1y2", "x1y10"));
  EXPECT_FALSE(natural_less("same", "same"));
  EXPECT_NE(natural_less("x1", "x01"), natural_less("x01", "x1"));
}

TEST(AtomicFile, NothingIsLeftWithoutCommit) {
  const std::string folder = testing::TempDir() + "/atomic";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/file";
  {
    Result<AtomicFile> file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok() && file->write("new", 3).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::ofstream(path) << "old";
  {
    Result<AtomicFile> file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok() && file->write("new", 3).ok());
    AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.commit().ok());
  }
  std::string contents;
  std::ifstream(path) >> contents;
  EXPECT_EQ(contents, "new");
  EXPECT_EQ(AtomicFile::create(folder).error().code(), Error::AccessFailed);
  EXPECT_EQ(AtomicFile::create(folder + "/no/file").error().code(), Error::AccessFailed);
}

}  // namespace
}  // namespace pteron::runner
