#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

// Whether `check` holds in a child, which is ended where it does not return.
bool in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(check() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

bool can_be_locked(ForkMutex& mutex) {
  const std::lock_guard<ForkMutex> lock(mutex);
  return true;
}

// Runs until it is destroyed.
class Meanwhile final {
 public:
  explicit Meanwhile(const std::function<void()>& repeat)
      : thread_([this, repeat] {
          while (!stop_) {
            repeat();
            began_ = true;
          }
        }) {
    while (!began_) std::this_thread::yield();
  }
  ~Meanwhile() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false}, began_{false};
  std::thread thread_;
};

TEST(ForkMutex, IsFreeAndWhatItGuardsIsWholeInAChild) {
  ForkMutex mutex;
  int a = 0, b = 0;
  const std::function<void()> change = [&] {
    const std::lock_guard<ForkMutex> lock(mutex);
    ++a;
    usleep(300);
    ++b;
  };
  const Meanwhile one(change), two(change);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(in_child([&] { return can_be_locked(mutex) && a == b; }));
  }
}

TEST(ForkMutex, MayBeHeldInAnyOrderWithOthers) {
  std::array<ForkMutex, 3> mutexes;
  const auto nest = [&](size_t first, size_t second) {
    return [&, first, second] {
      const std::lock_guard<ForkMutex> outer(mutexes[first]);
      usleep(100);
      const std::lock_guard<ForkMutex> inner(mutexes[second]);
    };
  };
  const Meanwhile one(nest(0, 1)), two(nest(1, 2)), three(nest(0, 2));
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(in_child([&] {
      for (ForkMutex& mutex : mutexes) can_be_locked(mutex);
      return can_be_locked(mutexes[0]);
    }));
  }
}

TEST(ForkMutex, AForkThatWaitsComesBeforeNewHolders) {
  ForkMutex mutexes[8];
  std::vector<std::unique_ptr<Meanwhile>> threads;
  for (ForkMutex& mutex : mutexes) {
    threads.push_back(std::make_unique<Meanwhile>([&mutex] {
      const std::lock_guard<ForkMutex> lock(mutex);
      usleep(1000);
    }));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(in_child([&] { return can_be_locked(mutexes[0]); }));
  }
}

TEST(ForkMutex, AThreadMayForkWithIt) {
  ForkMutex mutex, other;
  {
    const std::lock_guard<ForkMutex> lock(mutex);
    EXPECT_TRUE(in_child([&] { return can_be_locked(other); }));
  }
  EXPECT_TRUE(in_child(
      [&] { return can_be_locked(mutex) && in_child([&] { return can_be_locked(other); }); }));
}

TEST(Once, IsMadeOnceAndIsWholeInAChild) {
  static Once<int> made;
  std::atomic<int> times{0};
  const auto make = [&] {
    usleep(20000);
    return ++times;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(made.get(make), 1); });
  }
  usleep(5000);
  EXPECT_TRUE(in_child([&] { return made.get(make) == 1; }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(times, 1);
}

// What Segments relies on.
TEST(OnceFlag, IsDoneAgainInAChildWhereAnotherThreadHadBegun) {
  std::once_flag flag;
  std::atomic<bool> began{false};
  std::thread other([&] {
    std::call_once(flag, [&] {
      began = true;
      usleep(100000);
    });
  });
  while (!began) std::this_thread::yield();
  EXPECT_TRUE(in_child([&] {
    bool done = false;
    std::call_once(flag, [&] { done = true; });
    return done;
  }));
  other.join();
}

TEST(ForkGeneration, CountsTheForksBehindAProcess) {
  const uint32_t here = fork_generation();
  EXPECT_TRUE(in_child([&] {
    return fork_generation() == here + 1 && in_child([&] { return fork_generation() == here + 2; });
  }));
  EXPECT_EQ(fork_generation(), here);
}

}  // namespace
}  // namespace pteron
