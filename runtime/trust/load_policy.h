// Whose programs are loaded: signatures beside program files.
//
//   Result<std::shared_ptr<const Program>> load(const std::string& path, std::string key_pem) {
//     LoadPolicy policy;
//     policy.trusted_keys = {std::move(key_pem)};   // contents of pub.pem
//     policy.minimum_version = 3;
//     PTERON_ASSIGN_OR_RETURN(LoadOptions options, trusted_options(policy, path));
//     return Program::load(path, options);          // or Module(path, {options})
//   }
//
// `pteron sign` writes the signatures (docs/trust.md). The options name the digests of the files
// that were signed, and Program::load() compares them, so that a file that changes in between is
// refused. Links a crypto library (//runtime/trust). Thread-safe: no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/program_reader/load_options.h"

namespace pteron {

// The signature of `model.pte` is in `model.pte.intoto.json`.
inline constexpr char kSignatureSuffix[] = ".intoto.json";

struct LoadPolicy {
  // Public keys in PEM (text, not paths): ECDSA P-256 or Ed25519. A signature by one is enough.
  std::vector<std::string> trusted_keys;
  // Whether a program without a signature is an error. Otherwise it is loaded unverified, so that
  // who removes the signature is not noticed; a wrong signature is an error all the same.
  bool required = true;
  // Of the signature (`pteron sign --version`), against older programs with valid signatures.
  uint64_t minimum_version = 0;
  // As LoadOptions::allowed_backends; if both are set, what both allow.
  std::optional<std::vector<std::string>> allowed_backends;
};

// `options` for a program with this signature (the contents of the file). AccessFailed says what
// the policy refuses: no signature by a trusted key, a version below the minimum, expired.
// InvalidProgram: signed by a trusted key, but not what `pteron sign` writes. InvalidArgument: the
// policy has no keys, or ones of other kinds.
Result<LoadOptions> trusted_options_of(const LoadPolicy& policy, std::string_view signature,
                                       LoadOptions options = {});

// The same for the program file `path`, with the signature beside it. AccessFailed, too: there is
// none, and one is required; it cannot be read.
Result<LoadOptions> trusted_options(const LoadPolicy& policy, const std::string& path,
                                    LoadOptions options = {});

}  // namespace pteron
