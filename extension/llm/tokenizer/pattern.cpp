#include "pteron/extension/llm/tokenizer/pattern.h"

#include <cstdint>
#include <cstring>
#include <ctime>

#include "pteron/extension/llm/tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace pteron::llm {
namespace {

constexpr double kMaxSeconds = 5;  // before the last match, which may take as long
constexpr uint32_t kMaxKibibytes = 64 << 10;

thread_local double end_time = 0;  // of a TimeLimit, in cpu_seconds(); 0: there is none

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Rewrites what PCRE2 reads in another way than Oniguruma, or refuses it.
class Translation final {
 public:
  explicit Translation(const std::string& expression) : text_(expression) {}

  Result<std::string> run() {
    if (text_.compare(0, 4, "(?i)") == 0) copy(4);
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        PTERON_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        if (c == '[' || text_.compare(at_, 2, "&&") == 0) return refuse("a class in a class");
        in_class_ = c != ']';
        copy(1);
      } else if (c == '[') {
        in_class_ = true;
        copy(text_[at_ + 1] == '^' ? 2 : 1);
        if (text_[at_] == ']') return refuse("] at the beginning of a class");
      } else if (c == '(') {
        PTERON_RETURN_IF_ERROR(group());
      } else if (c == '{') {
        PTERON_RETURN_IF_ERROR(interval());
      } else {
        copy(1);
      }
    }
    return result_;
  }

 private:
  void copy(size_t count) {
    result_.append(text_, at_, count);
    at_ += count;
  }

  void replace(size_t count, const char* text) {
    result_ += text;
    at_ += count;
  }

  Error refuse(const std::string& what) const {
    return make_error(Error::NotSupported, "the pattern %s has %s at byte %zu", text_.c_str(),
                      what.c_str(), at_);
  }

  Error escape() {
    const char c = text_[at_ + 1];
    if (c == 's') {
      replace(2, "\\p{White_Space}");
    } else if (c == 'S') {
      replace(2, "\\P{White_Space}");
    } else if (c == 'd') {
      replace(2, "\\p{Nd}");
    } else if (c == 'D') {
      replace(2, "\\P{Nd}");
    } else if (c == 'w' && in_class_) {
      replace(2, "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}");
    } else if (c == 'w') {
      replace(2, "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
    } else if (c == 'W' && !in_class_) {
      replace(2, "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
    } else if (c == 'p' || c == 'P') {
      return property();
    } else if (c != '\0' && std::strchr("rntfAz", c) != nullptr) {
      copy(2);
    } else if (c == 'x' && text_[at_ + 2] == '{') {
      copy(3);
      while (at_ < text_.size() && text_[at_] != '}') copy(1);
    } else if (('0' <= c && c <= '9') || ('A' <= c && c <= 'Z') || ('a' <= c && c <= 'z')) {
      return refuse(std::string("\\") + c);
    } else {
      copy(2);
    }
    return Error::Ok;
  }

  // General categories are named alike. Of scripts, PCRE2's short form means more characters.
  Error property() {
    const size_t end = text_.find('}', at_);
    if (text_[at_ + 2] != '{' || end == std::string::npos) return refuse("a property without {}");
    const std::string name = text_.substr(at_ + 3, end - at_ - 3);
    const bool is_category = name.size() <= 2 || (name.size() == 3 && name[0] == '^');
    if (is_category) {
      copy(end + 1 - at_);
    } else {
      copy(3);
      result_ += "sc:";
      copy(end + 1 - at_);
    }
    return Error::Ok;
  }

  Error group() {
    for (const char* known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (text_.compare(at_, std::strlen(known), known) == 0) {
        copy(std::strlen(known));
        return Error::Ok;
      }
    }
    if (text_[at_ + 1] == '?' || text_[at_ + 1] == '*') return refuse("an unknown kind of group");
    copy(1);
    return Error::Ok;
  }

  // {n}? and {n,m}+ are quantifiers of quantifiers in Ruby, and {,m} is one.
  Error interval() {
    const size_t end = text_.find_first_not_of("0123456789, ", at_ + 1);
    if (end != std::string::npos && text_[end] == '}' && end > at_ + 1) {
      if (text_.find(' ', at_) < end) return refuse("a quantifier with a space");
      const bool is_exact = text_.find(',', at_) > end;
      if (text_[at_ + 1] == ',' || text_[end + 1] == '+' || (is_exact && text_[end + 1] == '?')) {
        return refuse("a quantifier of another meaning in Ruby than in Perl");
      }
    }
    copy(1);
    return Error::Ok;
  }

  const std::string& text_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string result_;
};

}  // namespace

Pattern::TimeLimit::TimeLimit() : is_outermost_(end_time == 0) {
  if (is_outermost_) end_time = cpu_seconds() + kMaxSeconds;
}

Pattern::TimeLimit::~TimeLimit() {
  if (is_outermost_) end_time = 0;
}

Result<Pattern> Pattern::regex(const std::string& expression) {
  PTERON_CHECK_OR_RETURN(!expression.empty() && expression.find('\0') == std::string::npos,
                         Error::NotSupported, "a pattern is empty or has a zero");
  PTERON_ASSIGN_OR_RETURN(const std::string translated, Translation(expression).run());
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) return Error::MemoryAllocationFailed;
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C,
      &number, &offset, context.get());
  if (!code) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(number, message, sizeof(message));
    return make_error(Error::NotSupported, "the pattern %s: %s", expression.c_str(),
                      reinterpret_cast<const char*>(message));
  }
  return Pattern("", std::shared_ptr<pcre2_code>(code, pcre2_code_free));
}

Result<std::vector<Pattern::Range>> Pattern::matches(std::string_view text) const {
  PTERON_RETURN_IF_ERROR(check_utf8(text));
  std::vector<Range> found;
  if (!code_) {
    for (size_t at = 0; (at = text.find(literal_, at)) != text.npos; at += literal_.size()) {
      found.push_back({at, at + literal_.size()});
    }
    return found;
  }
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  if (!data || !context) return Error::MemoryAllocationFailed;
  pcre2_set_heap_limit(context.get(), kMaxKibibytes);
  const TimeLimit limit;
  size_t count = 0;
  for (size_t at = 0; at <= text.size();) {
    // Position by position, with more steps if they did not do, so that the clock is read between.
    int status = PCRE2_ERROR_MATCHLIMIT;
    for (uint64_t steps = 1000; status == PCRE2_ERROR_MATCHLIMIT; steps *= 2) {
      if ((++count % 64 == 0 || steps > 1000) && cpu_seconds() > end_time) break;
      if (steps > UINT32_MAX) break;
      pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
      status = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                           PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, data.get(), context.get());
    }
    if (status < 0 && status != PCRE2_ERROR_NOMATCH) {
      return make_error(Error::OutOfResources,
                        "a pattern of the tokenizer needs more than %g s of CPU time or %u MiB for "
                        "a text of %zu bytes (PCRE2's status %d)",
                        2 * kMaxSeconds, kMaxKibibytes >> 10, text.size(), status);
    }
    const size_t end = status < 0 ? at : pcre2_get_ovector_pointer(data.get())[1];
    // An empty match right behind another match is none.
    if (status < 0 || (end == at && !found.empty() && found.back().end == at)) {
      at += at < text.size() ? character_at(text, at).size : 1;
    } else {
      found.push_back({at, end});
      at = end;
    }
  }
  return found;
}

}  // namespace pteron::llm
