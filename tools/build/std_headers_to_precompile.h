// Standard headers that most of our sources read, of those that are cheap to load precompiled.
// <cmath>, <complex>, <functional> and streams would cost all others more than they save.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
