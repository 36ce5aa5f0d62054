#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"
#include "pteron/backends/cpu/runtime/openmp/thread_pool.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cpu::openmp {
namespace {

// A region whose members meet, so that there is a thread for each.
int members_that_meet(int threads) {
  std::atomic<int> count{0};
  const Error error = run_region(
      [](void* data) {
        barrier();
        ++*static_cast<std::atomic<int>*>(data);
      },
      &count, threads);
  return error.ok() ? count.load() : -1;
}

double cpu_milliseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

TEST(ThreadPool, WorkersAreKept) {
  EXPECT_EQ(members_that_meet(4), 4);
  const int workers = ThreadPool::get().num_workers();
  EXPECT_GE(workers, std::min(3, num_processors() - 1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(members_that_meet(4), 4);
  EXPECT_EQ(ThreadPool::get().num_workers(), workers);
}

TEST(ThreadPool, IdleWorkersSleep) {
  EXPECT_EQ(members_that_meet(4), 4);
  usleep(20000);
  const double before = cpu_milliseconds();
  usleep(300000);
  EXPECT_LT(cpu_milliseconds() - before, 3.0);
  EXPECT_EQ(members_that_meet(4), 4);  // and wake up
}

TEST(ThreadPool, WorkersWakeOnAnotherProcessorAndMayRunOnAllAgain) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "there is one processor";
  struct Seen {
    int processors[2];
    cpu_set_t allowed[2];
  } seen = {};
  constexpr int kPauses = 20;
  int apart = 0;
  for (int i = 0; i < kPauses; ++i) {
    usleep(5000);
    const Error error = run_region(
        [](void* data) {
          Seen& seen = *static_cast<Seen*>(data);
          const int member = thread_num();
          seen.processors[member] = sched_getcpu();
          sched_getaffinity(0, sizeof(cpu_set_t), &seen.allowed[member]);
          barrier();
        },
        &seen, 2);
    ASSERT_TRUE(error.ok());
    apart += seen.processors[0] != seen.processors[1];
    for (const cpu_set_t& set : seen.allowed) EXPECT_TRUE(CPU_EQUAL(&set, &allowed));
  }
  // The system may move threads as it likes.
  EXPECT_GT(apart, kPauses / 2);
}

TEST(ThreadPool, WorkersTakeNoSignals) {
  EXPECT_EQ(members_that_meet(3), 3);
  static std::atomic<pthread_t> taker;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { taker = pthread_self(); };
  sigaction(SIGUSR1, &action, &before);
  for (int i = 0; i < 20; ++i) {
    taker = pthread_t{};
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(taker, pthread_self());
  }
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(ThreadPool, AChildProcessMakesItsOwnWorkers) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer takes a child's threads for its parent's";
#endif
  EXPECT_EQ(members_that_meet(3), 3);
  // Another thread is in regions all the while; the child has its team, but not the thread.
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) members_that_meet(3);
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool right = ThreadPool::get().num_workers() == 0;
      for (int k = 0; k < 20; ++k) right = right && members_that_meet(3) == 3;
      _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  other.join();
  EXPECT_EQ(members_that_meet(3), 3);
}

// As a limit on the processes of a user or a container does.
bool forbid_threads() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {5, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Also if the processors are more than two, and some of the threads were there before.
TEST(ThreadPool, WithoutThreadsOneComputesAndSaysSoOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads in a child";
#endif
  if (num_processors() == 1) GTEST_SKIP() << "no thread is wanted";
  for (const int threads_before : {0, 1}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      static int warnings = 0;
      set_log_sink([](LogLevel, const char*, void*) { ++warnings; }, nullptr);
      if (threads_before) members_that_meet(2);
      const int before = ThreadPool::get().num_workers();
      bool right = forbid_threads();
      for (int i = 0; i < 3000; ++i)
        right = right && members_that_meet(num_processors() + 2) == num_processors() + 2;
      const bool warned = warnings == (before < num_processors() - 1 ? 1 : 0);
      _exit(right && warned && ThreadPool::get().num_workers() == before ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

// How many of 200 regions' members run on another thread than the caller's; with a barrier, at which
// the caller waits a while.
int members_elsewhere() {
  struct Seen {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> elsewhere{0};
  } seen;
  for (int i = 0; i < 200; ++i) {
    const Error error = run_region(
        [](void* data) {
          Seen& seen = *static_cast<Seen*>(data);
          seen.elsewhere += std::this_thread::get_id() != seen.caller;
          if (thread_num() == 0) usleep(500);
          barrier();
        },
        &seen, 2);
    EXPECT_TRUE(error.ok());
  }
  return seen.elsewhere;
}

TEST(ThreadPool, AsManyCallersAsProcessorsComputeAlone) {
  const int others = num_processors() - 1;
  if (others == 0) GTEST_SKIP() << "there is one processor";
  static std::atomic<int> inside{0};
  static std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < others; ++i) {
    threads.emplace_back([] {
      const Error error = run_region(
          [](void*) {
            if (thread_num() != 0) return;
            ++inside;
            while (!stop) usleep(1000);
          },
          nullptr, 2);
      EXPECT_TRUE(error.ok());
    });
  }
  while (inside < others) usleep(100);
  EXPECT_EQ(members_elsewhere(), 0);
  EXPECT_LE(ThreadPool::get().num_workers(), others);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(members_elsewhere(), 0);
}

TEST(ThreadPool, ManyShortLivedCallers) {
  for (int i = 0; i < 200; ++i) {
    std::thread([] { EXPECT_EQ(members_that_meet(3), 3); }).join();
  }
}

TEST(ThreadPool, ALibraryThatIsClosedKeepsItsParkedWorkers) {
  for (int i = 0; i < 3; ++i) {
    void* library = dlopen("backends/cpu/runtime/openmp/tests/libregion_user.so", RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto use = reinterpret_cast<int (*)(int)>(dlsym(library, "use_regions"));
    ASSERT_NE(use, nullptr);
    EXPECT_EQ(use(4), 4);
    EXPECT_EQ(dlclose(library), 0);
    usleep(2000);
  }
}

}  // namespace
}  // namespace pteron::cpu::openmp
