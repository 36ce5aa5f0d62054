// Opening this library registers the recording device for the Metal backend.
#include <memory>

#include "pteron/backends/apple/metal/runtime/gpu.h"
#include "pteron/backends/apple/metal/runtime/testing/recording_gpu.h"

namespace pteron::metal {
namespace {

[[maybe_unused]] const bool registered = (register_gpu(std::make_unique<RecordingGpu>()), true);

}  // namespace
}  // namespace pteron::metal
