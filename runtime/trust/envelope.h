// DSSE: a signed payload (https://github.com/secure-systems-lab/dsse).
//
//   PTERON_ASSIGN_OR_RETURN(const PublicKey key, PublicKey::parse(pem));
//   PTERON_ASSIGN_OR_RETURN(const std::string payload, open_envelope(text, type, {&key, 1}));
#pragma once

#include <openssl/evp.h>

#include <string>
#include <string_view>
#include <utility>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

// ECDSA P-256 with SHA-256, or Ed25519.
class PublicKey final {
 public:
  // InvalidArgument: not a public key in PEM, or of another kind.
  static Result<PublicKey> parse(const std::string& pem);

  // Whether `signature` is one of `message` by this key.
  bool verifies(std::string_view signature, std::string_view message) const;

 private:
  explicit PublicKey(bssl::UniquePtr<EVP_PKEY> key) : key_(std::move(key)) {}

  bssl::UniquePtr<EVP_PKEY> key_;
};

// The payload of an envelope (JSON) of that type with a signature by one of the keys; nothing else of
// it may be used. AccessFailed: none is by them, or it is no such envelope.
Result<std::string> open_envelope(std::string_view envelope, std::string_view payload_type,
                                  Span<const PublicKey> keys);

}  // namespace pteron
