// Kernels and a backend for the tests of the executor. Linking them registers them.
//
// Kernels work on float32 tensors of equal shape unless said otherwise:
//   test::add.out(a, b, out, out)          out = a + b, resized to a
//   test::copy_(self, source, self)        self = source
//   test::fill.out(int value, out, out)    out = value
//   test::size(tensor, int dim, int out)   out = size of a dimension
//   test::add_int(int a, int b, int out)   out = a + b
//   test::less(int a, int b, bool out)     out = a < b
//   test::sum_lists(ints, doubles, bools, tensors, optional tensors, out, out)
//                                          out[0] = the sum of everything in the lists
//   test::fail(any...)                     fails with Internal, "failed as told"
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "pteron/runtime/backend/interface.h"

namespace pteron::testing {

// The id of a backend whose delegates write `factor` times their first argument to their last, both
// float32 tensors of equal shape, where `factor` is the processed bytes read as text ("2.5").
// Compile spec "fail" with the value "init" or "execute" makes them fail there; "prepare" with any
// value makes them prepare, and with "fail" fail at it.
inline constexpr char kScaleBackend[] = "ScaleBackend";

// What happened to the delegates of ScaleBackend since the last clear(). Not for several threads,
// but for the counters.
struct ScaleBackendLog {
  std::atomic<int> alive{0};
  // "init a", "prepare fixed free a", "destroy a": by compile spec "name"
  std::vector<std::string> events;
  std::vector<std::string> options;  // keys, of the last init
  std::vector<const void*> shared_states;
  bool recording = false;

  void clear();
};
ScaleBackendLog& scale_backend_log();

}  // namespace pteron::testing
