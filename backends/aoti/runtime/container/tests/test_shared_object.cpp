#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/shared_object.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron::aoti {
namespace {

TEST(SharedObject, LoadsFromMemoryAndUnloads) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  ASSERT_EQ(mapped_shared_objects(), 0);
  {
    auto object = value_of(SharedObject::load(bytes, sha256(bytes)));
    EXPECT_GT(mapped_shared_objects(), 0);
    EXPECT_NE(object->symbol("AOTInductorModelContainerRunSingleThreaded"), nullptr);
    EXPECT_EQ(object->symbol("no_such_function"), nullptr);
    EXPECT_EQ(object->imported().front(), "aoti_torch_delete_tensor_object");
  }
  EXPECT_EQ(mapped_shared_objects(), 0);
}

TEST(SharedObject, EqualBytesAreLoadedOnce) {
  const std::vector<uint8_t> bytes = read_toy("toy_model"), copy = bytes;
  Result<std::shared_ptr<SharedObject>> first = SharedObject::load(bytes, sha256(bytes));
  Result<std::shared_ptr<SharedObject>> second = SharedObject::load(copy, sha256(copy));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->get(), second->get());
}

TEST(SharedObject, LoadsAgainAfterUnloading) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  for (int i = 0; i < 5; ++i) {
    auto object = value_of(SharedObject::load(bytes, sha256(bytes)));
  }
  EXPECT_EQ(mapped_shared_objects(), 0);
}

// Its threads may wait in it.
TEST(SharedObject, AnOpenMpRuntimeThatItBroughtStays) {
  const char* const path = "backends/aoti/runtime/container/tests/libtoy_openmp.so";
  void* const runtime = dlopen(path, RTLD_NOW);
  ASSERT_NE(runtime, nullptr) << dlerror();
  const std::vector<uint8_t> bytes = read_toy("toy_model_openmp");
  {
    auto object = value_of(SharedObject::load(bytes, sha256(bytes)));
    dlclose(runtime);
  }
  EXPECT_EQ(mapped_shared_objects(), 0);
  EXPECT_NE(dlopen(path, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(SharedObject, ThreadsShareOne) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  std::vector<std::shared_ptr<SharedObject>> objects(8);
  std::vector<std::thread> threads;
  for (auto& object : objects) {
    threads.emplace_back([&bytes, &object] {
      Result<std::shared_ptr<SharedObject>> result = SharedObject::load(bytes, sha256(bytes));
      if (result.ok()) object = *result;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& object : objects) EXPECT_EQ(object, objects[0]);
  EXPECT_NE(objects[0], nullptr);
}

TEST(SharedObject, RefusesDamagedBytesBeforeOpeningThem) {
  std::vector<uint8_t> bytes = read_toy("toy_model");
  const Sha256Digest digest = sha256(bytes);
  for (size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::vector<uint8_t> damaged = bytes;
    damaged[at] ^= 1;
    Result<std::shared_ptr<SharedObject>> object = SharedObject::load(damaged, digest);
    ASSERT_FALSE(object.ok());
    EXPECT_EQ(object.error(), Error::InvalidProgram);
    EXPECT_NE(object.error().message().find(to_hex(digest)), std::string::npos);
  }
}

// A byte of code that is mapped, and where in the file it is.
struct MappedByte {
  const uint8_t* address = nullptr;
  size_t offset = 0;
};

MappedByte last_byte_of_code() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0;
    if (line.find("pteron_model_") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx r-xp %lx", &begin, &end, &offset) != 3) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return {reinterpret_cast<const uint8_t*>(end - 1), offset + (end - 1 - begin)};
  }
  return {};
}

// Another process writes to the bytes meanwhile, as it may to a mapped file.
TEST(SharedObject, RunsTheBytesThatWereChecked) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  const Sha256Digest digest = sha256(bytes);
  size_t last = 0;  // far from what is parsed
  {
    auto object = value_of(SharedObject::load(bytes, digest));
    last = last_byte_of_code().offset;
    ASSERT_TRUE(last > 0 && last < bytes.size());
  }
  auto* const shared = static_cast<uint8_t*>(
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  std::copy(bytes.begin(), bytes.end(), shared);
  const pid_t writer = ::fork();
  if (writer == 0) {
    for (volatile uint8_t* const byte = shared + last;; ::usleep(1)) *byte = *byte ^ 1;
  }
  int opened = 0;
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    auto object = SharedObject::load({shared, bytes.size()}, digest);
    if (!object.ok()) continue;
    ++opened;
    const MappedByte mapped = last_byte_of_code();
    ASSERT_EQ(mapped.offset, last);
    EXPECT_EQ(*mapped.address, bytes.at(last)) << "after " << i << " loads";
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  ::munmap(shared, bytes.size());
  EXPECT_GT(opened, 0);
}

constexpr char kRun[] = "AOTInductorModelContainerRunSingleThreaded";

size_t count_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

// What `check` says, in a process whose descriptors and rights do not matter to others.
bool in_child(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(check() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

std::shared_ptr<SharedObject> load_toy(const std::string& name, std::string* message = nullptr) {
  const std::vector<uint8_t> bytes = read_toy(name);
  // Models find it where a process has it: they have no run paths.
  (void)dlopen("backends/aoti/runtime/container/tests/libtoy_openmp.so", RTLD_NOW);
  Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
  if (message && !object.ok()) *message = object.error().message();
  return object.ok() ? *object : nullptr;
}

TEST(SharedObject, KeepsNoDescriptor) {
  const size_t before = count_descriptors();
  const auto a = load_toy("toy_model"), b = load_toy("toy_model_openmp");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(count_descriptors(), before);
}

// A path that once was an object's must not be another's.
TEST(SharedObject, IsItselfWhateverWasClosedBefore) {
  EXPECT_TRUE(in_child([] {
    const auto a = load_toy("toy_model");
    for (int descriptor = 3; descriptor < 1024; ++descriptor) ::close(descriptor);
    const auto b = load_toy("toy_model_openmp");
    return a && b && a->symbol(kRun) && b->symbol(kRun) && a->symbol(kRun) != b->symbol(kRun);
  }));
}

TEST(SharedObject, IsLoadedInAChildWhateverOthersLoadMeanwhile) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&stop] {
      while (!stop) load_toy("toy_model");
    });
  }
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    EXPECT_TRUE(in_child([] { return load_toy("toy_model") && load_toy("toy_model_openmp"); }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedObject, IsItselfAlthoughOneBeforeCannotBeUnloaded) {
  EXPECT_TRUE(in_child([] {
    auto a = load_toy("toy_model");
    Dl_info info;
    const void* const run = a->symbol(kRun);
    if (!dladdr(run, &info) || !dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)) return false;
    a.reset();
    const auto b = load_toy("toy_model_openmp");
    a = load_toy("toy_model");
    return a && b && b->symbol(kRun) != run && a->symbol(kRun) != b->symbol(kRun);
  }));
}

// As a seccomp profile or vm.memfd_noexec does.
bool forbid_memory_files(int reason) {
  const auto number = static_cast<uint32_t>(SYS_memfd_create);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(reason)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(SharedObject, GoesThroughAFileThatIsGoneWhereMemoryFilesAreForbidden) {
  for (const int reason : {EACCES, EPERM, ENOSYS}) {
    const std::string folder = ::testing::TempDir() + "pteron_code_" + std::to_string(reason);
    std::filesystem::create_directories(folder);
    EXPECT_TRUE(in_child([&] {
      ::setenv("TMPDIR", folder.c_str(), 1);
      if (!forbid_memory_files(reason)) return false;
      const size_t before = count_descriptors();
      const auto a = load_toy("toy_model"), b = load_toy("toy_model_openmp");
      return a && b && a->symbol(kRun) != b->symbol(kRun) && mapped_shared_objects() > 0 &&
             std::filesystem::is_empty(folder) && count_descriptors() == before;
    })) << reason;
  }
}

TEST(SharedObject, IsKeptAsAFileForProfilers) {
  const std::string folder = ::testing::TempDir() + "pteron_code_kept";
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(in_child([&] {
    ::setenv("PTERON_CODE_FOLDER", folder.c_str(), 1);
    auto a = load_toy("toy_model");
    Dl_info info;
    if (!a || !dladdr(a->symbol(kRun), &info)) return false;
    const std::string path = info.dli_fname;
    a.reset();
    return path.rfind(folder, 0) == 0 &&
           std::filesystem::file_size(path) == read_toy("toy_model").size();
  }));
  EXPECT_TRUE(in_child([] {
    ::setenv("PTERON_CODE_FOLDER", "/no/such/folder", 1);
    std::string message;
    return !load_toy("toy_model", &message) && message.find("/no/such/folder") != std::string::npos;
  }));
}

TEST(SharedObject, SaysBothWaysThatAreForbidden) {
  EXPECT_TRUE(in_child([] {
    ::setenv("TMPDIR", "/no/such/folder", 1);
    std::string message;
    if (!forbid_memory_files(EACCES) || load_toy("toy_model", &message)) return false;
    const auto says = [&](const char* text) { return message.find(text) != std::string::npos; };
    return says("memfd_create: Permission denied") && says("/no/such/folder") && says("TMPDIR") &&
           says("vm.memfd_noexec");
  }));
}

TEST(SharedObject, NamesEveryMissingShim) {
  const std::vector<uint8_t> bytes = read_toy("toy_model_missing");
  ASSERT_FALSE(bytes.empty());
  Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.error(), Error::OperatorMissing);
  const std::string message = object.error().message();
  EXPECT_NE(message.find("aoti_torch_cpu_no_such_operator"), std::string::npos) << message;
  EXPECT_NE(message.find("aoti_torch_cpu_nor_this_one"), std::string::npos) << message;
  EXPECT_EQ(mapped_shared_objects(), 0);
}

}  // namespace
}  // namespace pteron::aoti
