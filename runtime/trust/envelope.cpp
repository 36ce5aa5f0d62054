#include "pteron/runtime/trust/envelope.h"

#include <openssl/base64.h>
#include <openssl/bio.h>
#include <openssl/digest.h>
#include <openssl/ec.h>
#include <openssl/ec_key.h>
#include <openssl/err.h>
#include <openssl/nid.h>
#include <openssl/pem.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace pteron {
namespace {

using Json = nlohmann::json;

// Keys that are encrypted are not asked for a password.
int no_password(char*, int, int, void*) { return 0; }

// Base64 of either alphabet, which DSSE leaves to the writer.
std::optional<std::string> decode(const Json& json, const char* key) {
  const auto field = json.is_object() ? json.find(key) : json.end();
  if (field == json.end() || !field->is_string()) return std::nullopt;
  std::string text = field->get<std::string>();
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  std::string bytes(text.size(), '\0');
  size_t nbytes = 0;
  if (!EVP_DecodeBase64(reinterpret_cast<uint8_t*>(bytes.data()), &nbytes, bytes.size(),
                        reinterpret_cast<const uint8_t*>(text.data()), text.size())) {
    return std::nullopt;
  }
  bytes.resize(nbytes);
  return bytes;
}

// What is signed: "DSSEv1", and length and bytes of the type and of the payload.
std::string encoding(std::string_view type, std::string_view payload) {
  std::string text = "DSSEv1";
  for (const std::string_view part : {type, payload}) {
    text += " " + std::to_string(part.size()) + " ";
    text += part;
  }
  return text;
}

}  // namespace

Result<PublicKey> PublicKey::parse(const std::string& pem) {
  const bssl::UniquePtr<BIO> bytes(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  bssl::UniquePtr<EVP_PKEY> key(
      bytes ? PEM_read_bio_PUBKEY(bytes.get(), nullptr, no_password, nullptr) : nullptr);
  ERR_clear_error();
  PTERON_CHECK_OR_RETURN(key, Error::InvalidArgument,
                         "a trusted key is no public key in PEM; expected the contents of a file "
                         "that begins with -----BEGIN PUBLIC KEY-----");
  const EC_KEY* const ec = EVP_PKEY_get0_EC_KEY(key.get());
  const bool is_p256 = ec && EC_GROUP_get_curve_name(EC_KEY_get0_group(ec)) == NID_X9_62_prime256v1;
  PTERON_CHECK_OR_RETURN(is_p256 || EVP_PKEY_id(key.get()) == EVP_PKEY_ED25519,
                         Error::InvalidArgument,
                         "a trusted key is of another kind; expected ECDSA P-256 or Ed25519");
  ERR_clear_error();
  return PublicKey(std::move(key));
}

bool PublicKey::verifies(std::string_view signature, std::string_view message) const {
  const bssl::UniquePtr<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const EVP_MD* const hash = EVP_PKEY_id(key_.get()) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const uint8_t*>(text.data());
  };
  const bool is_good =
      context && EVP_DigestVerifyInit(context.get(), nullptr, hash, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                       message.size()) == 1;
  ERR_clear_error();
  return is_good;
}

Result<std::string> open_envelope(std::string_view envelope, std::string_view payload_type,
                                  Span<const PublicKey> keys) {
  const Json json = Json::parse(envelope, nullptr, /*allow_exceptions=*/false);
  const std::optional<std::string> payload = decode(json, "payload");
  PTERON_CHECK_OR_RETURN(
      payload && json.contains("payloadType") && json["payloadType"] == payload_type &&
          json.contains("signatures") && json["signatures"].is_array(),
      Error::AccessFailed, "the signature is no DSSE envelope of type %.*s; pteron sign writes one",
      static_cast<int>(payload_type.size()), payload_type.data());
  const std::string message = encoding(payload_type, *payload);
  // An envelope of a signer has one signature; one with many would take long to refuse.
  constexpr size_t kMostSignatures = 16;
  const Json& signatures = json["signatures"];
  for (size_t i = 0; i < std::min(signatures.size(), kMostSignatures); ++i) {
    const std::optional<std::string> signature = decode(signatures[i], "sig");
    if (!signature) continue;
    for (const PublicKey& key : keys) {
      if (key.verifies(*signature, message)) return *payload;
    }
  }
  return make_error(Error::AccessFailed,
                    "the signature is by none of the %zu trusted keys, or was altered",
                    keys.size());
}

}  // namespace pteron
