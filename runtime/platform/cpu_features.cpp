#include "pteron/runtime/platform/cpu_features.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>

#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

struct IsaLevel {
  const char* name;
  std::vector<std::string_view> features;
};

// From the x86-64 psABI; "pni" is SSE3, "abm" is LZCNT, "xsave" stands for OSXSAVE.
const std::vector<IsaLevel>& isa_levels() {
  static const auto* const levels = new std::vector<IsaLevel>{
      {"x86-64-v2", {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}},
      {"x86-64-v3", {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}},
      {"x86-64-v4", {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}},
  };
  return *levels;
}

using Features = std::set<std::string, std::less<>>;

// What the compiler's probe tells of those that code may need.
Features probed_features() {
  Features features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_level[] = {
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"),
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
          __builtin_cpu_supports("fma"),
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"),
  };
  for (size_t i = 0; i < std::size(has_level) && has_level[i]; ++i) {
    features.insert(isa_levels()[i].features.begin(), isa_levels()[i].features.end());
  }
  if (__builtin_cpu_supports("avx512vnni")) features.emplace("avx512_vnni");
  if (__builtin_cpu_supports("avx512bf16")) features.emplace("avx512_bf16");
#endif
  return features;
}

const Features& machine_features() {
  static Once<Features> features;
  return features.get([] { return read_cpu_features("/proc/cpuinfo"); });
}

void add_missing(const std::vector<std::string_view>& features, std::string* missing) {
  for (const std::string_view feature : features) {
    if (cpu_has_feature(feature)) continue;
    if (!missing->empty()) *missing += ", ";
    missing->append(feature);
  }
}

}  // namespace

// The words of the first "flags" line (x86) or "Features" line (Arm): features that the kernel
// enables, which may be fewer than cpuid reports.
std::set<std::string, std::less<>> read_cpu_features(const char* path) {
  Features features;
  std::FILE* const file = std::fopen(path, "re");
  if (!file) return probed_features();
  char* line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, file) > 0) {
    const std::string_view text(line);
    if (text.rfind("flags", 0) != 0 && text.rfind("Features", 0) != 0) continue;
    size_t start = text.find(':');
    if (start == std::string_view::npos) continue;
    ++start;
    while ((start = text.find_first_not_of(" \t\n", start)) != std::string_view::npos) {
      const size_t end = text.find_first_of(" \t\n", start);
      features.emplace(text.substr(start, end - start));
      if (end == std::string_view::npos) break;
      start = end;
    }
    break;
  }
  std::free(line);
  std::fclose(file);
  return features;
}

bool cpu_has_feature(std::string_view feature) { return machine_features().count(feature) > 0; }

std::string_view cpu_isa_level() {
#if defined(__x86_64__)
  std::string_view level = "x86-64";
  for (const IsaLevel& next : isa_levels()) {
    for (const std::string_view feature : next.features) {
      if (!cpu_has_feature(feature)) return level;
    }
    level = next.name;
  }
  return level;
#else
  return "";
#endif
}

std::vector<std::string_view> features_of_isa_level(std::string_view level) {
  for (const IsaLevel& known : isa_levels()) {
    if (level == known.name) return known.features;
  }
  return {};
}

Error check_cpu(std::string_view isa_level, const std::vector<std::string_view>& features) {
  std::string missing;
  if (!isa_level.empty() && isa_level != "x86-64") {
    std::string known_names;
    bool known = false;
    for (const IsaLevel& level : isa_levels()) {
      add_missing(level.features, &missing);
      known_names += std::string(", ") + level.name;
      if ((known = isa_level == level.name)) break;
    }
    PTERON_CHECK_OR_RETURN(
        known, Error::NotSupported, "unknown instruction set level %.*s; known are x86-64%s",
        static_cast<int>(isa_level.size()), isa_level.data(), known_names.c_str());
  }
  add_missing(features, &missing);
  if (missing.empty()) return Error::Ok;
  const std::string machine(cpu_isa_level().empty() ? "another architecture" : cpu_isa_level());
  const std::string level(isa_level.empty() ? "a processor with more features" : isa_level);
  return make_error(
      Error::DelegateInvalidCompatibility,
      "code was compiled for %s; this machine is %s and lacks %s. Lower the model for "
      "a level that this machine has",
      level.c_str(), machine.c_str(), missing.c_str());
}

}  // namespace pteron
