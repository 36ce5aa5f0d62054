#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/cpu/runtime/openmp/denormals.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"
#include "pteron/backends/cpu/runtime/openmp/thread_pool.h"
#include "pteron/runtime/core/run_control.h"

namespace pteron::cpu::openmp {
namespace {

// A region over a lambda.
template <typename Body>
Error region(int threads, const Body& body) {
  return run_region([](void* data) { (*static_cast<const Body*>(data))(); },
                    const_cast<Body*>(&body), threads);
}

TEST(Region, ApiExample) {
  std::vector<int> squares(4);
  const Error error = region(4, [&] { squares[thread_num()] = thread_num() * thread_num(); });
  EXPECT_TRUE(error.ok());
  EXPECT_EQ(squares, (std::vector<int>{0, 1, 4, 9}));
}

TEST(Region, EveryMemberRunsOnceInATeamOfTheSizeAskedFor) {
  for (int threads = 1; threads <= 2 * num_processors() + 5; ++threads) {
    std::vector<std::atomic<int>> runs(threads);
    std::atomic<int> right_size{0};
    EXPECT_TRUE(region(threads, [&] {
                  ++runs[thread_num()];
                  right_size += num_threads() == threads;
                  EXPECT_EQ(in_region(), threads > 1);
                }).ok());
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    EXPECT_EQ(right_size, threads);
  }
  EXPECT_EQ(thread_num(), 0);
  EXPECT_EQ(num_threads(), 1);
  EXPECT_FALSE(in_region());
}

// Regions of a run that has been told to end, by its own member or another thread.
TEST(Region, ARunThatIsToldToEndBeginsNoMore) {
  for (const int threads : {1, 2, 3, 64}) {
    RunControl control;
    const RunControl::Scope scope(control, {}, 1e9);
    std::atomic<int> runs{0};
    EXPECT_TRUE(region(threads, [&] { ++runs; }).ok());
    EXPECT_EQ(runs, threads);
    ASSERT_TRUE(control.cancel());
    EXPECT_EQ(region(threads, [&] { ++runs; }), Error::Cancelled);
    EXPECT_EQ(runs, threads);
  }
  std::atomic<int> runs{0};
  EXPECT_TRUE(region(3, [&] { ++runs; }).ok()) << "other runs go on";
  EXPECT_EQ(runs, 3);
}

TEST(Region, ARegionEndsBetweenItsMembers) {
  RunControl control;
  const RunControl::Scope scope(control, {}, 1e9);
  std::atomic<int> runs{0};
  const Error error = region(64, [&] {
    control.cancel();
    ++runs;
  });
  EXPECT_EQ(error, Error::Cancelled);
  EXPECT_LT(runs, 64) << "what had begun is done, and no more";
}

TEST(Region, ARegionEndsAtItsBarriers) {
  for (const int threads : {2, 5, 40}) {
    RunControl control;
    const RunControl::Scope scope(control, {}, 1e9);
    std::atomic<int> rounds{0};
    std::thread other([&] {
      while (rounds.load() < 100) std::this_thread::yield();
      control.cancel();
    });
    const Error error = region(threads, [&] {
      for (;;) {
        ++rounds;
        barrier();
      }
    });
    other.join();
    EXPECT_EQ(error, Error::Cancelled);
  }
  EXPECT_TRUE(region(4, [] { barrier(); }).ok());
}

TEST(Region, ADeadlineEndsARegion) {
  RunControl control;
  ExecuteOptions options;
  options.timeout = 0.05;
  const RunControl::Scope scope(control, options, 1e9);
  EXPECT_EQ(region(3,
                   [] {
                     for (;;) barrier();
                   }),
            Error::TimedOut);
}

TEST(Region, WithoutBarriersThePoolStaysBelowTheProcessors) {
  EXPECT_TRUE(region(64, [] {}).ok());
  EXPECT_LT(ThreadPool::get().num_workers(), num_processors());
}

TEST(Region, MembersTakeDenormalsAsTheCallerDoes) {
  const volatile float small = 1e-30f;
  for (const bool flush : {true, false, true, false}) {
    set_flush_denormals(flush);
    std::atomic<int> exact{0};
    EXPECT_TRUE(region(4, [&] {
                  exact += small * 1e-12f != 0;
                  barrier();
                }).ok());
    EXPECT_EQ(exact, flush ? 0 : 4);
  }
}

TEST(Region, TheNumberOfThreadsIsTheThreadsOwn) {
  EXPECT_EQ(max_threads(), default_threads());
  set_max_threads(3);
  int size = 0;
  EXPECT_TRUE(region(0, [&] {
                if (thread_num() == 0) size = num_threads();
              }).ok());
  EXPECT_EQ(size, 3);
  std::thread([] { EXPECT_EQ(max_threads(), default_threads()); }).join();
  set_max_threads(-5);
  EXPECT_EQ(max_threads(), 1);
  set_max_threads(default_threads());
}

TEST(Region, InsideARegionItHasOneMember) {
  std::atomic<int> inner{0};
  EXPECT_TRUE(region(3, [&] {
                const int outer = thread_num();
                EXPECT_TRUE(region(4, [&] {
                              EXPECT_EQ(thread_num(), 0);
                              EXPECT_EQ(num_threads(), 1);
                              EXPECT_TRUE(in_region());
                              barrier();  // of one
                              ++inner;
                            }).ok());
                EXPECT_EQ(thread_num(), outer);
                EXPECT_EQ(num_threads(), 3);
              }).ok());
  EXPECT_EQ(inner, 3);
}

TEST(Region, ABarrierWaitsForAll) {
  for (int threads = 1; threads <= num_processors() + 3; ++threads) {
    constexpr int kRounds = 50;
    std::vector<int> rounds(threads, 0);
    std::atomic<int> early{0};
    EXPECT_TRUE(region(threads, [&] {
                  for (int round = 1; round <= kRounds; ++round) {
                    rounds[thread_num()] = round;
                    barrier();
                    for (const int other : rounds) early += other != round;
                    barrier();
                  }
                }).ok());
    EXPECT_EQ(early, 0);
    EXPECT_EQ(rounds, std::vector<int>(threads, kRounds));
  }
}

double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Region, ASlowMemberIsAwaitedAsleep) {
  std::atomic<int> arrived{0}, done{0};
  std::atomic<bool> awake{false};
  const double before = thread_seconds();
  EXPECT_TRUE(region(3, [&] {
                const double start = thread_seconds();
                if (thread_num() == 1) usleep(100000);
                ++arrived;
                barrier();
                EXPECT_EQ(arrived, 3);
                if (thread_seconds() - start > 0.02) awake = true;
                if (thread_num() == 2) usleep(100000);  // now the owner waits
                ++done;
              }).ok());
  EXPECT_EQ(done, 3);
  EXPECT_FALSE(awake);
  EXPECT_LT(thread_seconds() - before, 0.04);
}

TEST(Region, OneMemberDoesEachSingle) {
  constexpr int kSingles = 200;
  std::vector<std::atomic<int>> done(kSingles);
  EXPECT_TRUE(region(4, [&] {
                for (int i = 0; i < kSingles; ++i) {
                  if (begin_single()) ++done[i];
                  if (i % 3 == 0) barrier();
                }
              }).ok());
  for (const auto& count : done) EXPECT_EQ(count, 1);
  EXPECT_TRUE(begin_single());
}

// More callers than processors, all with barriers: every team is complete.
TEST(Region, ManyCallersShareThePool) {
  constexpr int kCallers = 8, kRegions = 200, kMembers = 4;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kRegions; ++i) {
        int parts[kMembers] = {}, sums[kMembers] = {};
        const bool meets = (i + caller) % 4 == 0;
        const Error error = region(kMembers, [&] {
          parts[thread_num()] = thread_num() + i;
          if (!meets) return;
          barrier();
          sums[thread_num()] = std::accumulate(parts, parts + kMembers, 0);
        });
        wrong += !error.ok();
        for (int m = 0; m < kMembers; ++m) {
          wrong += parts[m] != m + i;
          wrong += meets && sums[m] != 6 + 4 * i;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(ThreadPool::get().num_workers(), kCallers * (kMembers - 1) + num_processors());
}

TEST(Region, AMemberThatGivesUpEndsTheRegion) {
  for (int failing = 0; failing < 4; ++failing) {
    std::atomic<int> behind{0}, beyond{0};
    const Error error = region(4, [&] {
      if (thread_num() == failing) {
        EXPECT_TRUE(fail_member(make_error(Error::InvalidArgument, "member %d", failing)));
        leave_member();
        ++behind;
      }
      barrier();  // of which one is missing
      ++beyond;
    });
    EXPECT_EQ(error, Error::InvalidArgument);
    EXPECT_EQ(error.message(), "member " + std::to_string(failing));
    EXPECT_EQ(behind, 0);
    EXPECT_EQ(beyond, 0);
    std::atomic<int> runs{0};
    EXPECT_TRUE(region(4, [&] {
                  barrier();
                  ++runs;
                }).ok());
    EXPECT_EQ(runs, 4);
  }
}

TEST(Region, TheFirstErrorOfSeveralCounts) {
  std::mutex mutex;
  std::vector<int> failed;
  const Error error = region(8, [&] {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      failed.push_back(thread_num());
      (void)fail_member(make_error(Error::InvalidArgument, "member %d", thread_num()));
    }
    leave_member();
  });
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(error.message(), "member " + std::to_string(failed.front()));
  EXPECT_FALSE(in_region());
}

TEST(Region, GivingUpLeavesNestedRegionsAndRegionsOfOneToo) {
  Error error = region(2, [&] {
    (void)region(2, [&] {
      (void)fail_member(Error(Error::InvalidArgument, "inner"));
      leave_member();
    });
    ADD_FAILURE() << "the outer member went on";
  });
  EXPECT_EQ(error.message(), "inner");
  error = region(1, [&] {
    (void)fail_member(Error(Error::InvalidArgument, "alone"));
    leave_member();
  });
  EXPECT_EQ(error.message(), "alone");
  EXPECT_FALSE(in_region());
}

TEST(Region, OutsideThereIsNothingToGiveUp) {
  EXPECT_FALSE(fail_member(Error(Error::Internal, "nowhere")));
}

TEST(Region, AHundredThousandRegions) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int64_t wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    const int threads = 1 + static_cast<int>(random() % 5);
    const bool meets = random() % 16 == 0;
    const bool fails = random() % 64 == 0;
    if (random() % 1024 == 0) usleep(100);  // workers fall asleep
    int runs[5] = {};
    const Error error = region(threads, [&] {
      if (fails && thread_num() == threads - 1) {
        (void)fail_member(Error::InvalidState);
        leave_member();
      }
      if (meets) barrier();
      ++runs[thread_num()];
    });
    wrong += error.ok() == fails;
    for (int m = 0; m < 5; ++m) wrong += !fails && runs[m] != (m < threads);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace pteron::cpu::openmp
