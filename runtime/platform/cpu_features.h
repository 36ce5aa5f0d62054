// CPU features, to check compiled code against the machine.
//
//   PTERON_RETURN_IF_ERROR(check_cpu("x86-64-v4", {"avx512_bf16"}));
//
// Features are named as in /proc/cpuinfo ("avx2", "avx512_bf16"); levels are those of the x86-64
// psABI ("x86-64-v2", "x86-64-v3", "x86-64-v4"). All functions are thread-safe and query the
// machine once.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/error.h"

namespace pteron {

bool cpu_has_feature(std::string_view feature);

// The features in a file as /proc/cpuinfo. Without the file (a chroot has none) those of the levels
// that the processor has, and of AVX-512.
std::set<std::string, std::less<>> read_cpu_features(const char* path);

// The highest psABI level of this machine: "x86-64-v3". "x86-64" if below v2, empty on another
// architecture.
std::string_view cpu_isa_level();

// The features a level adds to those below it; empty for an unknown level.
std::vector<std::string_view> features_of_isa_level(std::string_view level);

// Ok when this machine has the level (empty: none needed) and all features. Otherwise
// DelegateInvalidCompatibility, which lists all missing features and the machine's level;
// NotSupported for an unknown level.
Error check_cpu(std::string_view isa_level, const std::vector<std::string_view>& features);

}  // namespace pteron
