#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"
#include "pteron/backends/aoti/shims/private_names.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron::aoti {
namespace {

TEST(PrivateNames, KeepTheirLength) {
  for (const char* name : {"aoti_torch_cpu_mm_out", "Sleef_expf8_u10", "GOMP_parallel",
                           "omp_get_thread_num", "cudaMalloc", "cuLaunchKernel"}) {
    EXPECT_EQ(private_name(name).size(), std::string(name).size());
    EXPECT_NE(private_name(name), name);
  }
  EXPECT_EQ(private_name("aoti_torch_cpu_mm_out"), "ptrn_torch_cpu_mm_out");
  EXPECT_EQ(private_name("Sleef_expf8_u10"), "ptrn_vexpf8_u10");
  EXPECT_EQ(private_name("GOMP_parallel"), "ptrn_parallel");
  EXPECT_EQ(private_name("omp_get_thread_num"), "ptrnget_thread_num");
  for (const char* name : {"memcpy", "cudart", "cupti", "cublasCreate", "aoti_torch_", "Sleef"}) {
    EXPECT_EQ(private_name(name), name);
  }
}

TEST(RenameImports, RenamesAllOfThemAndNothingElse) {
  std::vector<uint8_t> object = read_toy("toy_model");
  ASSERT_FALSE(object.empty());
  const std::vector<uint8_t> before = object;
  auto imported = value_of(rename_imports(object));
  const std::vector<std::string> expected = {
      "aoti_torch_delete_tensor_object", "aoti_torch_device_type_cpu", "aoti_torch_dtype_float32",
      "aoti_torch_empty_strided",        "aoti_torch_get_data_ptr",    "aoti_torch_get_numel",
      "aoti_torch_new_tensor_handle"};
  EXPECT_EQ(imported, expected);
  size_t changed = 0;
  for (size_t i = 0; i < object.size(); ++i) changed += object[i] != before[i];
  EXPECT_EQ(changed, expected.size() * 4);  // "aoti" and "ptrn" share no letter in place
  EXPECT_EQ(rename_imports(object).error(), Error::InvalidProgram);  // no model has these names
}

TEST(RenameImports, RefusesWhatIsNoSharedObject) {
  std::vector<uint8_t> empty, text(4096, 'x');
  EXPECT_EQ(rename_imports(empty).error(), Error::InvalidProgram);
  EXPECT_EQ(rename_imports(text).error(), Error::InvalidProgram);
  std::vector<uint8_t> other = read_toy("toy_model");
  other[18] ^= 0xff;  // e_machine
  Result<std::vector<std::string>> result = rename_imports(other);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("another processor"), std::string::npos);
}

TEST(RenameImports, RefusesEveryTruncation) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  for (size_t size = 0; size < whole.size(); size += 61) {
    std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<std::vector<std::string>> result = rename_imports(part);
    if (result.ok()) continue;  // only sections behind the segments are missing
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << "changed at " << size;
  }
}

// Damage of the parts that are parsed: an error or a result, never a crash, and no half-done work.
TEST(RenameImports, SurvivesDamage) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const size_t header = std::min<size_t>(whole.size(), 8192);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> object = whole;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const size_t at = random() % (round % 2 ? header : whole.size());
      object[at] = random() % 3 ? static_cast<uint8_t>(random()) : 0xff;
    }
    const std::vector<uint8_t> before = object;
    if (rename_imports(object).ok()) continue;
    ASSERT_EQ(object, before);
  }
}

// A shared object with nothing but what is parsed: `body` at address kBody of a file that is loaded
// `loads` times, at one address after the other.
constexpr uint64_t kBody = 0x400000;

std::vector<uint8_t> make_object(std::vector<Elf64_Dyn> dynamic, const std::vector<uint8_t>& body,
                                 uint16_t loads = 1) {
  dynamic.push_back({DT_NULL, {0}});
  const uint64_t size = kBody + body.size();
  std::vector<uint8_t> object = read_toy("toy_model");
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof(header));
  header.e_phoff = sizeof(header);
  header.e_phnum = static_cast<uint16_t>(loads + 2);
  object.assign(kBody, 0);
  std::memcpy(object.data(), &header, sizeof(header));
  const auto add_segment = [&](size_t i, uint32_t type, uint64_t offset, uint64_t address,
                               uint64_t nbytes) {
    const Elf64_Phdr segment{type, PF_R, offset, address, address, nbytes, nbytes, 1};
    std::memcpy(object.data() + sizeof(header) + i * sizeof(segment), &segment, sizeof(segment));
  };
  for (uint16_t i = 0; i < loads; ++i) add_segment(i, PT_LOAD, 0, i * size, size);
  const uint64_t at = kBody - dynamic.size() * sizeof(Elf64_Dyn);
  add_segment(loads, PT_DYNAMIC, at, at, dynamic.size() * sizeof(Elf64_Dyn));
  add_segment(loads + 1u, PT_GNU_STACK, 0, 0, 0);
  std::memcpy(object.data() + at, dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
  object.insert(object.end(), body.begin(), body.end());
  return object;
}

// Changes `object` where `text` is, with its final zero.
void replace_name(std::vector<uint8_t>& object, const std::string& text, const std::string& by) {
  const auto found =
      std::search(object.begin(), object.end(), text.c_str(), text.c_str() + text.size() + 1);
  ASSERT_NE(found, object.end()) << text;
  ASSERT_EQ(text.size(), by.size());
  std::copy(by.begin(), by.end(), found);
}

template <typename Edit>
void edit_segments(std::vector<uint8_t>& object, const Edit& edit) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    uint8_t* const at = object.data() + header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, at, sizeof(segment));
    edit(segment);
    std::memcpy(at, &segment, sizeof(segment));
  }
}

// Puts an entry in the place of one that loading does not need; returns its offset.
size_t put_dynamic(std::vector<uint8_t>& object, Elf64_Dyn entry) {
  size_t place = 0;
  edit_segments(object, [&](Elf64_Phdr& segment) {
    if (segment.p_type != PT_DYNAMIC) return;
    for (size_t at = segment.p_offset; at < segment.p_offset + segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn old;
      std::memcpy(&old, object.data() + at, sizeof(old));
      if (old.d_tag == DT_RELACOUNT) place = at;
    }
  });
  EXPECT_NE(place, 0u);
  std::memcpy(object.data() + place, &entry, sizeof(entry));
  return place;
}

void expect_refused(std::vector<uint8_t> object, const std::string& why) {
  const std::vector<uint8_t> before = object;
  const Result<std::vector<std::string>> result = rename_imports(object);
  ASSERT_FALSE(result.ok()) << why;
  EXPECT_EQ(result.error(), Error::InvalidProgram);
  EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
  EXPECT_EQ(object, before);
}

TEST(RenameImports, RefusesImportsThatModelsDoNotHave) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  for (const auto& [name, by] :
       std::vector<std::pair<std::string, std::string>>{{"libstdc++.so.6", "libevil++.so.6"},
                                                        {"libstdc++.so.6", "../../evil.so6"},
                                                        {"libc.so.6", "/opt/a.so"},
                                                        {"memcpy", "system"},
                                                        {"memcpy", "dlopen"},
                                                        {"memcpy", "execve"},
                                                        {"memcpy", "my_own"}}) {
    std::vector<uint8_t> object = whole;
    replace_name(object, name, by);
    expect_refused(object, "it needs what models do not import: " + by);
  }
  // A function of the system without its version is not another.
  std::vector<uint8_t> object = whole;
  replace_name(object, "aoti_torch_get_numel", std::string("aoti_torc\0_get_numel", 20));
  expect_refused(object, "aoti_torc");
}

TEST(RenameImports, RefusesCodeThatWeakensTheProcess) {
  const std::vector<uint8_t> whole = read_toy("toy_model");
  std::vector<uint8_t> object = whole;
  edit_segments(object, [](Elf64_Phdr& x) { x.p_flags |= x.p_type == PT_GNU_STACK ? PF_X : 0; });
  expect_refused(object, "executable stack");
  object = whole;
  edit_segments(object, [](Elf64_Phdr& x) {
    if (x.p_type == PT_GNU_STACK) x.p_type = PT_NULL;
  });
  expect_refused(object, "executable stack");
  for (const uint32_t flag : {PF_W, PF_X}) {
    object = whole;
    edit_segments(object, [flag](Elf64_Phdr& x) {
      const uint32_t other = flag == PF_W ? PF_X : PF_W;
      if (x.p_type == PT_LOAD && (x.p_flags & other)) x.p_flags |= flag;
    });
    expect_refused(object, "both writable and executable");
  }
  object = whole;
  edit_segments(object, [](Elf64_Phdr& x) { x.p_offset += x.p_type == PT_DYNAMIC ? 16 : 0; });
  expect_refused(object, "dynamic segment outside the load segments");
  object = whole;
  edit_segments(object, [](Elf64_Phdr& x) {
    if (x.p_type == PT_LOAD && (x.p_flags & PF_W)) x.p_vaddr = 0;
  });
  expect_refused(object, "overlap");
  for (const Elf64_Dyn& entry : {Elf64_Dyn{DT_TEXTREL, {0}}, Elf64_Dyn{DT_FLAGS, {DF_TEXTREL}}}) {
    object = whole;
    put_dynamic(object, entry);
    expect_refused(object, "text relocations");
  }
  for (const int64_t tag : {int64_t{DT_AUDIT}, int64_t{DT_AUXILIARY}, int64_t{DT_FILTER}}) {
    object = whole;
    put_dynamic(object, {tag, {1}});
    expect_refused(object, "a library that it would have opened");
  }
}

TEST(RenameImports, RemovesRunPaths) {
  for (const int64_t tag : {int64_t{DT_RPATH}, int64_t{DT_RUNPATH}}) {
    std::vector<uint8_t> object = read_toy("toy_model");
    const size_t at = put_dynamic(object, {tag, {1}});
    ASSERT_TRUE(rename_imports(object).ok());
    Elf64_Dyn entry;
    std::memcpy(&entry, object.data() + at, sizeof(entry));
    EXPECT_EQ(entry.d_tag, 0x60000000);
  }
}

void check_refused_at_once(std::vector<uint8_t> object) {
  const clock_t start = std::clock();
  const Result<std::vector<std::string>> result = rename_imports(object);
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), Error::InvalidProgram) << result.error().message();
}

TEST(RenameImports, CountsNoHashTableThatIsLargerThanTheFile) {
  for (const uint16_t loads : {uint16_t{1}, uint16_t{60'000}}) {
    std::vector<uint8_t> body(1 << 20);
    const uint32_t gnu_hash[] = {UINT32_MAX, 1, 0, 0};  // buckets, first, bloom words, shift
    std::memcpy(body.data(), gnu_hash, sizeof(gnu_hash));
    check_refused_at_once(make_object(
        {{DT_STRTAB, {kBody}}, {DT_STRSZ, {64}}, {DT_SYMTAB, {kBody}}, {DT_GNU_HASH, {kBody}}},
        body, loads));
  }
}

TEST(RenameImports, RefusesNamesThatOverlap) {
  constexpr uint32_t kSymbols = 40'000;
  std::vector<Elf64_Sym> symbols(kSymbols);
  for (uint32_t i = 0; i < kSymbols; ++i) symbols[i].st_name = i;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(symbols.data());
  std::vector<uint8_t> body(bytes, bytes + kSymbols * sizeof(Elf64_Sym));
  const uint64_t hash = kBody + body.size();
  const uint32_t chains[] = {1, kSymbols, 0, 0};
  body.insert(body.end(), reinterpret_cast<const uint8_t*>(chains),
              reinterpret_cast<const uint8_t*>(chains + 4));
  const uint64_t strings = kBody + body.size();
  body.resize(body.size() + (1 << 20), 'a');
  body.back() = 0;
  check_refused_at_once(make_object(
      {{DT_STRTAB, {strings}}, {DT_STRSZ, {1 << 20}}, {DT_SYMTAB, {kBody}}, {DT_HASH, {hash}}},
      body));
}

TEST(RenameImports, RefusesVersionsThatOverlap) {
  std::vector<uint8_t> body(1 << 20);
  const uint32_t chains[] = {1, 1, 0, 0};
  std::memcpy(body.data(), chains, sizeof(chains));
  // Every 16 bytes a needed version, whose names begin here and follow each other as closely.
  for (uint64_t at = 64; at + 32 <= body.size(); at += 16) {
    const Elf64_Verneed need{1, 0xffff, 0, 16, 16};
    std::memcpy(body.data() + at, &need, sizeof(need));
  }
  check_refused_at_once(make_object({{DT_STRTAB, {kBody + 16}},
                                     {DT_STRSZ, {16}},
                                     {DT_SYMTAB, {kBody}},
                                     {DT_HASH, {kBody}},
                                     {DT_VERNEED, {kBody + 64}},
                                     {DT_VERNEEDNUM, {UINT32_MAX}}},
                                    body));
}

// The first of the program and its libraries that comes from the file `path`.
struct Loaded {
  std::string path;
  uintptr_t base = 0;
  Span<const Elf64_Phdr> headers;
};

TEST(IsMappedAt, ThatObjectAndNoOther) {
  Loaded loaded{"backends/aoti/runtime/container/tests/libtoy_openmp.so", 0, {}};
  ASSERT_NE(dlopen(loaded.path.c_str(), RTLD_NOW), nullptr) << dlerror();
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* const found = static_cast<Loaded*>(data);
        if (found->path != info->dlpi_name) return 0;
        found->base = info->dlpi_addr;
        found->headers = {info->dlpi_phdr, info->dlpi_phnum};
        return 1;
      },
      &loaded);
  const std::vector<uint8_t> bytes = read_toy("toy_openmp");
  EXPECT_TRUE(is_mapped_at(bytes, loaded.base, loaded.headers));
  EXPECT_FALSE(is_mapped_at(read_toy("toy_model"), loaded.base, loaded.headers));
  EXPECT_FALSE(is_mapped_at({bytes.data(), 16}, loaded.base, loaded.headers));
  std::vector<uint8_t> changed = bytes;
  for (const size_t at : {size_t{4}, size_t{70}, size_t{loaded.headers[0].p_offset} + 700}) {
    changed[at] ^= 1;
    EXPECT_FALSE(is_mapped_at(changed, loaded.base, loaded.headers)) << at;
    changed[at] ^= 1;
  }
}

}  // namespace
}  // namespace pteron::aoti
