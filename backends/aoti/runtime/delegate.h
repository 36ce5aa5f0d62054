// The delegate of every backend whose partitions are compiled by AOTInductor.
//
//   // In a backend's BackendInterface::init:
//   return aoti::load_delegate(context, processed, std::make_unique<CpuDevice>());
//
// `processed` names two blobs, the code and the weights, one a line; a third one beside them is the
// metadata (schema/metadata.fbs). Code in several variants has these for each; of those that are
// not chosen only the metadata is read. Nothing of the code is loaded before the metadata is
// verified, the machine is found fit and the digest of the code is right. Weights are used where
// the file is mapped.
//
// A run makes no allocation of its own from the system and takes no lock. Inputs are checked
// against the metadata first; inputs of another layout or device than the code was compiled for are
// copied, and copied back if the code changes them. Outputs are copied to the memory that the
// method planned, unless the device let the code compute them there
// (AotiDevice::offer_output_buffers).
#pragma once

#include <cstdint>
#include <memory>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// InvalidArgument: options that the device does not know, all of them named. InvalidProgram:
// processed bytes, metadata, code or weights that are damaged or do not belong together. NotFound:
// a blob that the program does not have. DelegateInvalidCompatibility: another device, machine or
// version. OperatorMissing: shims that are not here.
Result<std::unique_ptr<Delegate>> load_delegate(BackendInitContext& context,
                                                Span<const uint8_t> processed,
                                                std::unique_ptr<AotiDevice> device);

}  // namespace pteron::aoti
