// What a part of a tokenizer.json throws that is not supported or wrong; HFTokenizer::load_json()
// catches it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace pteron::llm {

struct Refusal final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An id of a token.
inline uint32_t read_id(const nlohmann::json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= UINT32_MAX) {
    throw Refusal("found the id " + json.dump() + "; expected an integer of 32 bits");
  }
  return json.get<uint32_t>();
}

}  // namespace pteron::llm
