#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/shared_object.h"
#include "pteron/backends/aoti/runtime/container/tests/toy_shared_object.h"

namespace pteron::aoti {
namespace {

TEST(SharedObject, LoadsFromMemoryAndUnloads) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  ASSERT_EQ(mapped_shared_objects(), 0);
  {
    Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
    ASSERT_TRUE(object.ok()) << object.error().message();
    EXPECT_GT(mapped_shared_objects(), 0);
    EXPECT_NE((*object)->symbol("AOTInductorModelContainerRunSingleThreaded"), nullptr);
    EXPECT_EQ((*object)->symbol("no_such_function"), nullptr);
    EXPECT_EQ((*object)->imported().front(), "aoti_torch_delete_tensor_object");
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
    Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
    ASSERT_TRUE(object.ok()) << object.error().message();
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
    Result<std::shared_ptr<SharedObject>> object = SharedObject::load(bytes, sha256(bytes));
    ASSERT_TRUE(object.ok()) << object.error().message();
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

// The bytes that were opened, from their file in memory.
std::vector<uint8_t> opened_bytes() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.find("memfd:pteron_model_") == std::string::npos) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  return {};
}

// Another process writes to the bytes meanwhile, as it may to a mapped file.
TEST(SharedObject, RunsTheBytesThatWereChecked) {
  const std::vector<uint8_t> bytes = read_toy("toy_model");
  const Sha256Digest digest = sha256(bytes);
  const size_t last = bytes.size() - 1;  // far from what is parsed
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
    EXPECT_EQ(opened_bytes().at(last), bytes.at(last)) << "after " << i << " loads";
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  ::munmap(shared, bytes.size());
  EXPECT_GT(opened, 0);
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
