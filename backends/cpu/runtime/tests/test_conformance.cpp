// The CPU joins the suite of common shims.
#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"

namespace pteron::aoti::conformance {

TestDevice test_device() { return {/*type=*/0, /*index=*/-1, /*available=*/true, ""}; }

}  // namespace pteron::aoti::conformance
