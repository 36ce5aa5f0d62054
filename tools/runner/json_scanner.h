// A strict reader for small JSON texts of a known shape: no tree, no recursion.
//
//   JsonScanner scanner(text);
//   for (JsonScanner::Items items(scanner, '{', '}'); items.next();) {
//     std::string key = scanner.string();
//     scanner.expect(':');
//     int64_t value = scanner.integer();
//   }
//   if (!scanner.finished()) report(scanner.problem());
//
// After the first problem nothing moves any more: values are empty, loops end. Text is borrowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pteron::runner {

class JsonScanner final {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  // "expected ',' at byte 17"; empty while all is well.
  const std::string& problem() const { return problem_; }
  bool ok() const { return problem_.empty(); }
  // Whether all is well and only white space is left.
  bool finished();

  void expect(char character);
  // With escapes resolved; \u outside the basic plane needs its pair.
  std::string string();
  // Of at least 0 and at most INT64_MAX, without fraction or exponent.
  int64_t integer();

  // The comma-separated items between two brackets.
  class Items final {
   public:
    Items(JsonScanner& scanner, char open, char close) : scanner_(scanner), close_(close) {
      scanner_.expect(open);
    }
    // Moves to the next item; false after the last.
    bool next();

   private:
    JsonScanner& scanner_;
    char close_;
    bool first_ = true;
  };

 private:
  void skip_space();
  bool take(char character);
  void fail(const std::string& expected);
  uint32_t hex4();
  void append_escape(std::string& out);

  std::string_view text_;
  size_t position_ = 0;
  std::string problem_;
};

}  // namespace pteron::runner
