// How long an empty region takes, here and with libgomp, in turn in one process.
//
//   tools/bazel run //backends/cpu/runtime/openmp/tests:region_latency -- [threads] [rounds]
//
// Hot: regions without a pause between them, so that libgomp's threads wait actively. Cold: one
// region after a pause. Before each turn is a pause long enough for the other's threads to stop
// spinning. Prints quantiles over the rounds, in nanoseconds a region.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backends/cpu/runtime/openmp/region.h"

namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

void nothing(void*) {}

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

void print(const char* what, std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double q) {
    return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-12s %9.0f %9.0f %9.0f %9.0f\n", what, quantile(0.05), quantile(0.25),
              quantile(0.5), quantile(0.95));
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 300;
  void* library = dlopen("libgomp.so.1", RTLD_NOW);
  const auto gomp =
      library ? reinterpret_cast<GompParallel>(dlsym(library, "GOMP_parallel")) : nullptr;
  if (!gomp) {
    std::fprintf(stderr, "no libgomp.so.1 to compare with: %s\n", dlerror());
    return 1;
  }
  const auto ours = [&] { (void)pteron::cpu::openmp::run_region(nothing, nullptr, threads); };
  const auto theirs = [&] { gomp(nothing, nullptr, static_cast<unsigned>(threads), 0); };
  std::vector<double> hot_ours, hot_theirs, cold_ours, cold_theirs;
  for (int round = 0; round < rounds; ++round) {
    hot_ours.push_back(nanoseconds(50, 200, ours));
    hot_theirs.push_back(nanoseconds(50, 200, theirs));
    cold_ours.push_back(nanoseconds(0, 1, ours));
    cold_theirs.push_back(nanoseconds(0, 1, theirs));
  }
  std::printf("%d threads %15s %9s %9s %9s\n", threads, "5%", "25%", "50%", "95%");
  print("hot, ours", hot_ours);
  print("hot, libgomp", hot_theirs);
  print("cold, ours", cold_ours);
  print("cold,libgomp", cold_theirs);
  return 0;
}
