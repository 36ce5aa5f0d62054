// Signatures: keys, envelopes, and statements that a trusted key has signed.
//
// The first byte says which of them the rest is. Whatever it is, an envelope that no trusted key has
// signed is refused.
#include <openssl/base64.h>
#include <openssl/bio.h>
#include <openssl/curve25519.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "pteron/runtime/trust/envelope.h"
#include "pteron/runtime/trust/load_policy.h"

namespace pteron {
namespace {

constexpr char kType[] = "application/vnd.in-toto+json";
constexpr char kStatement[] =
    R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"urn:pteron:program:v1",)"
    R"("predicate":{"version":3,"expires":"2130-01-31T12:00:00Z"},"subject":[{"name":"a","digest":{)"
    R"("pteron_integrity":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}}]})";

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  text.resize(EVP_EncodeBlock(reinterpret_cast<uint8_t*>(text.data()),
                              reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  return text;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Signer {
  bssl::UniquePtr<EVP_PKEY> key;
  LoadPolicy policy;

  Signer() {
    const uint8_t seed[32] = {1, 2, 3};
    key.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed, sizeof(seed)));
    const bssl::UniquePtr<BIO> pem(BIO_new(BIO_s_mem()));
    const uint8_t* bytes = nullptr;
    size_t nbytes = 0;
    require(key && PEM_write_bio_PUBKEY(pem.get(), key.get()) == 1 &&
                BIO_mem_contents(pem.get(), &bytes, &nbytes) == 1,
            "no key");
    policy.trusted_keys = {{reinterpret_cast<const char*>(bytes), nbytes}};
  }

  std::string envelope(const std::string& payload) const {
    const std::string message = "DSSEv1 " + std::to_string(sizeof(kType) - 1) + " " + kType + " " +
                                std::to_string(payload.size()) + " " + payload;
    const bssl::UniquePtr<EVP_MD_CTX> context(EVP_MD_CTX_new());
    std::string signature(64, '\0');
    size_t nbytes = signature.size();
    require(
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
            EVP_DigestSign(context.get(), reinterpret_cast<uint8_t*>(signature.data()), &nbytes,
                           reinterpret_cast<const uint8_t*>(message.data()), message.size()) == 1,
        "no signature");
    return std::string(R"({"payloadType":")") + kType + R"(","payload":")" + base64(payload) +
           R"(","signatures":[{"sig":")" + base64(signature) + R"("}]})";
  }
};

}  // namespace
}  // namespace pteron

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pteron;
  static const Signer signer;
  static const std::string whole = signer.envelope(kStatement);
  static const auto expected = trusted_options_of(signer.policy, whole)->allowed_files;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: {  // signed, whatever it is
      const auto options = trusted_options_of(signer.policy, signer.envelope(text));
      require(!options.ok() || (options->allowed_files && !options->allowed_files->empty()),
              "options without digests");
      break;
    }
    case 1: {  // an edit of a signed envelope: position, length of what goes, what comes
      if (text.size() < 3) break;
      const auto byte = [&](size_t i) {
        return static_cast<size_t>(static_cast<uint8_t>(text[i]));
      };
      std::string edited = whole;
      edited.replace((byte(0) << 8 | byte(1)) % edited.size(), byte(2) % 16, text.substr(3));
      const auto options = trusted_options_of(signer.policy, edited);
      require(!options.ok() || options->allowed_files == expected,
              "an altered signature was taken");
      break;
    }
    case 2:
      require(!trusted_options_of(signer.policy, text).ok() || text == whole, "a forged signature");
      break;
    default:
      (void)PublicKey::parse(text).ok();
  }
  return 0;
}
