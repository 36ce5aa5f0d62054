// A header at a path that Pteron has, too.
#pragma once

namespace runtime {

inline constexpr char kError[] = "runtime/core/error.h of this workspace";

}  // namespace runtime
