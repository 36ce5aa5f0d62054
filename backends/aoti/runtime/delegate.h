// The delegate of all AOTInductor backends.
//
//   // In a backend's BackendInterface::init:
//   return aoti::load_delegate(context, processed, std::make_unique<CpuDevice>());
//
// `processed` names two blobs, code and weights, one per line; a third blob is the metadata
// (schema/metadata.fbs). With several variants, each has its own; only the metadata of variants
// that are not chosen is read. Code is loaded only after the metadata was verified, the machine was
// found compatible and the code's digest matched. Weights are used in the mapped file.
//
// A run allocates nothing of its own and takes no lock. Inputs are first checked against the
// metadata; inputs with another layout or device than the code was compiled for are copied, and
// copied back if the code modifies them. Outputs are copied to planned memory, unless the device
// let the code compute them there (AotiDevice::offer_output_buffers).
#pragma once

#include <cstdint>
#include <memory>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// InvalidArgument: unknown options (all are named). InvalidProgram: processed bytes, metadata, code
// or weights that are corrupt or inconsistent. NotFound: a blob that the program does not have.
// DelegateInvalidCompatibility: another device, machine or version. OperatorMissing: shims that
// this runtime lacks.
Result<std::unique_ptr<Delegate>> load_delegate(BackendInitContext& context,
                                                Span<const uint8_t> processed,
                                                std::unique_ptr<AotiDevice> device);

}  // namespace pteron::aoti
