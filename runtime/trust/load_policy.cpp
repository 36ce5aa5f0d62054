#include "pteron/runtime/trust/load_policy.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/trust/envelope.h"

namespace pteron {
namespace {

using Json = nlohmann::json;

constexpr char kPayloadType[] = "application/vnd.in-toto+json";
constexpr char kStatementType[] = "https://in-toto.io/Statement/v1";
constexpr char kPredicateType[] = "urn:pteron:program:v1";
// Of the digest of a file's FlatBuffers part, beside sha256 of the whole file.
constexpr char kDigestName[] = "pteron_integrity";
constexpr uintmax_t kMaxNbytes = 1 << 20;

// A member of that name, or null.
Json member(const Json& json, const char* name) {
  return json.is_object() ? json.value(name, Json()) : Json();
}

std::optional<Sha256Digest> from_hex(const Json& json) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  Sha256Digest digest{};
  const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex || text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return digest;
}

// As `pteron sign` writes times, so that texts compare as times do: 2027-01-31T12:00:00Z.
bool is_time(const std::string& text) {
  const std::string form = "dddd-dd-ddTdd:dd:ddZ";
  return text.size() == form.size() &&
         std::equal(text.begin(), text.end(), form.begin(), [](char letter, char expected) {
           return expected == 'd' ? letter >= '0' && letter <= '9' : letter == expected;
         });
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  char text[32] = "";
  gmtime_r(&seconds, &parts);
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Error check_predicate(const LoadPolicy& policy, const Json& predicate) {
  const Json version = member(predicate, "version");
  const Json expires = member(predicate, "expires");
  PTERON_CHECK_OR_RETURN(
      version.is_number_unsigned() &&
          (expires.is_null() || (expires.is_string() && is_time(expires.get<std::string>()))),
      Error::InvalidProgram,
      "the signature's version or time of expiry is none that pteron sign writes");
  using ull = unsigned long long;
  PTERON_CHECK_OR_RETURN(version.get<uint64_t>() >= policy.minimum_version, Error::AccessFailed,
                         "the signature is of version %llu, and the policy's minimum is %llu",
                         static_cast<ull>(version.get<uint64_t>()),
                         static_cast<ull>(policy.minimum_version));
  const std::string time = now();
  PTERON_CHECK_OR_RETURN(expires.is_null() || time < expires.get<std::string>(),
                         Error::AccessFailed, "the signature expired at %s, and it is %s",
                         expires.get<std::string>().c_str(), time.c_str());
  return Error::Ok;
}

// The digests of the files that a statement names.
Result<std::vector<Sha256Digest>> read_statement(const LoadPolicy& policy,
                                                 const std::string& payload) {
  const Json statement = Json::parse(payload, nullptr, /*allow_exceptions=*/false);
  const Json subjects = member(statement, "subject");
  PTERON_CHECK_OR_RETURN(
      member(statement, "_type") == kStatementType &&
          member(statement, "predicateType") == kPredicateType && subjects.is_array() &&
          !subjects.empty(),
      Error::InvalidProgram,
      "what is signed is no in-toto statement of type %s; pteron sign writes one", kPredicateType);
  PTERON_RETURN_IF_ERROR(check_predicate(policy, member(statement, "predicate")));
  std::vector<Sha256Digest> digests;
  for (const Json& subject : subjects) {
    const std::optional<Sha256Digest> digest =
        from_hex(member(member(subject, "digest"), kDigestName));
    PTERON_CHECK_OR_RETURN(digest, Error::InvalidProgram,
                           "what is signed has a file without digest %s", kDigestName);
    digests.push_back(*digest);
  }
  return digests;
}

// `signature`: none if there is no file `beside` the program.
Result<LoadOptions> apply(const LoadPolicy& policy, std::optional<std::string_view> signature,
                          const std::string& beside, LoadOptions options) {
  PTERON_CHECK_OR_RETURN(!policy.trusted_keys.empty() || !policy.required, Error::InvalidArgument,
                         "the policy requires signatures and has no trusted keys");
  std::vector<PublicKey> keys;
  for (const std::string& pem : policy.trusted_keys) {
    PTERON_ASSIGN_OR_RETURN(PublicKey key, PublicKey::parse(pem));
    keys.push_back(std::move(key));
  }
  PTERON_CHECK_OR_RETURN(signature || !policy.required, Error::AccessFailed,
                         "it has no signature, which the policy requires; pteron sign writes one "
                         "to %s",
                         beside.c_str());
  if (signature) {
    PTERON_CHECK_OR_RETURN(signature->size() <= kMaxNbytes, Error::AccessFailed,
                           "the signature has %zu bytes, at most %zu are possible",
                           signature->size(), static_cast<size_t>(kMaxNbytes));
    PTERON_ASSIGN_OR_RETURN(const std::string payload,
                            open_envelope(*signature, kPayloadType, keys));
    PTERON_ASSIGN_OR_RETURN(options.allowed_files, read_statement(policy, payload));
  }
  if (!policy.allowed_backends) return options;
  std::vector<std::string> both;
  for (const std::string& id : *policy.allowed_backends) {
    const auto& given = options.allowed_backends;
    if (!given || std::find(given->begin(), given->end(), id) != given->end()) both.push_back(id);
  }
  options.allowed_backends = std::move(both);
  return options;
}

}  // namespace

Result<LoadOptions> trusted_options_of(const LoadPolicy& policy, std::string_view signature,
                                       LoadOptions options) {
  return catch_exceptions([&] { return apply(policy, signature, "", std::move(options)); });
}

Result<LoadOptions> trusted_options(const LoadPolicy& policy, const std::string& path,
                                    LoadOptions options) {
  return catch_exceptions([&]() -> Result<LoadOptions> {
    const std::string beside = path + kSignatureSuffix;
    std::error_code error;
    const uintmax_t nbytes = std::filesystem::file_size(beside, error);
    std::optional<std::string> signature;
    if (error != std::errc::no_such_file_or_directory) {
      std::ifstream file(beside, std::ios::binary);
      PTERON_CHECK_OR_RETURN(!error && nbytes <= kMaxNbytes && file, Error::AccessFailed,
                             "%s: not a file that can be read, of at most %zu bytes",
                             beside.c_str(), static_cast<size_t>(kMaxNbytes));
      signature.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    Result<LoadOptions> found = apply(policy, signature, beside, std::move(options));
    if (!found.ok()) return found.take_error().with_context(path);
    return found;
  });
}

}  // namespace pteron
