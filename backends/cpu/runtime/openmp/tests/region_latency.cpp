// How long an empty region takes, here and with libgomp, in turn in one process.
//
//   tools/bazel run //backends/cpu/runtime/openmp/tests:region_latency -- [threads] [rounds]
//
// Hot: regions without a pause between them, so that libgomp's threads wait actively. Cold: one
// region after a pause. Empty: members do nothing. Meeting: they meet at a barrier, so that all of
// the threads are needed. Working: each works for some tens of microseconds. Before each turn is a
// pause long enough for the other's threads to stop spinning. Prints quantiles over the rounds, in
// nanoseconds a region.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "pteron/backends/cpu/runtime/openmp/region.h"

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

GompParallel gomp_parallel = nullptr;
void (*gomp_barrier)() = nullptr;

struct Contender {
  const char* name;
  void (*region)(void (*body)(void*), int threads);
  void (*meet)(void*);
};

const Contender kContenders[] = {
    {"ours",
     [](void (*body)(void*), int threads) {
       (void)pteron::cpu::openmp::run_region(body, nullptr, threads);
     },
     [](void*) { pteron::cpu::openmp::barrier(); }},
    {"libgomp",
     [](void (*body)(void*), int threads) {
       gomp_parallel(body, nullptr, static_cast<unsigned>(threads), 0);
     },
     [](void*) { gomp_barrier(); }},
};

void nothing(void*) {}
void work(void*) {
  volatile double x = 1;
  for (int i = 0; i < 20000; ++i) x = x * 1.0000001;
}

// Of one region, after a pause and `warm_up` others.
template <typename Region>
double nanoseconds(int warm_up, int count, const Region& region) {
  usleep(10000);
  for (int i = 0; i < warm_up; ++i) region();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) region();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / count;
}

void print(const std::string& what, std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double q) {
    return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-24s %9.0f %9.0f %9.0f %9.0f\n", what.c_str(), quantile(0.05), quantile(0.25),
              quantile(0.5), quantile(0.95));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 300;
  void* library = dlopen("libgomp.so.1", RTLD_NOW);
  if (library) {
    gomp_parallel = reinterpret_cast<GompParallel>(dlsym(library, "GOMP_parallel"));
    gomp_barrier = reinterpret_cast<void (*)()>(dlsym(library, "GOMP_barrier"));
  }
  if (!gomp_parallel || !gomp_barrier) {
    std::fprintf(stderr, "no libgomp.so.1 to compare with: %s\n", dlerror());
    return 1;
  }
  struct Case {
    const char* name;
    int warm_up, regions;
    void (*body)(void*);  // null: the contender's meet
  };
  const Case cases[] = {
      {"hot, empty", 50, 200, nothing}, {"hot, meeting", 50, 200, nullptr},
      {"hot, working", 50, 50, work},   {"cold, empty", 0, 1, nothing},
      {"cold, meeting", 0, 1, nullptr}, {"cold, working", 0, 1, work},
  };
  std::vector<double> times[6][2];
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 6; ++i) {
      for (int k = 0; k < 2; ++k) {
        const Contender& contender = kContenders[k];
        const auto body = cases[i].body ? cases[i].body : contender.meet;
        times[i][k].push_back(nanoseconds(cases[i].warm_up, cases[i].regions,
                                          [&] { contender.region(body, threads); }));
      }
    }
  }
  std::printf("%-24s %9s %9s %9s %9s\n", "ns a region", "5%", "25%", "50%", "95%");
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 2; ++k) {
      print(std::string(cases[i].name) + ", " + kContenders[k].name, times[i][k]);
    }
  }
  return 0;
}
