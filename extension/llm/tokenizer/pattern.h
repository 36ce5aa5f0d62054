// What splits or replaces parts of a text in a tokenizer.json: a string, or a regular expression.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/result.h"

struct pcre2_real_code_8;

namespace pteron::llm {

// Copies share the compiled expression. Thread-safe.
class Pattern final {
 public:
  struct Range {
    size_t begin;
    size_t end;
  };

  // While there is one, all matches() of the thread have the 10 seconds together.
  class TimeLimit final {
   public:
    TimeLimit();
    ~TimeLimit();
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

   private:
    bool is_outermost_;
  };

  // Matches `text`, which is not empty.
  static Pattern literal(std::string text) { return Pattern(std::move(text), nullptr); }

  // `expression` is of Oniguruma's Ruby syntax, as the package tokenizers reads it, and is matched
  // by PCRE2. NotSupported: the two libraries read it differently, or not at all.
  static Result<Pattern> regex(const std::string& expression);

  // Where `text` matches, in order and without overlaps; a match may be empty. InvalidArgument: it
  // is not UTF-8. OutOfResources: it takes more than 64 MiB or 10 seconds of CPU time.
  Result<std::vector<Range>> matches(std::string_view text) const;

 private:
  Pattern(std::string literal, std::shared_ptr<pcre2_real_code_8> code)
      : literal_(std::move(literal)), code_(std::move(code)) {}

  std::string literal_;
  std::shared_ptr<pcre2_real_code_8> code_;  // null: literal_
};

}  // namespace pteron::llm
