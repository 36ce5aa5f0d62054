#include <gtest/gtest.h>

#include <vector>

#include "pteron/tools/runner/json_scanner.h"

namespace pteron::runner {
namespace {

std::string scanned_string(std::string_view text, std::string* problem = nullptr) {
  JsonScanner scanner(text);
  std::string value = scanner.string();
  scanner.finished();
  if (problem) *problem = scanner.problem();
  return value;
}

TEST(JsonScanner, Example) {
  JsonScanner scanner(R"( {"a": [1, 22], "b":[]} )");
  std::vector<std::pair<std::string, std::vector<int64_t>>> found;
  for (JsonScanner::Items items(scanner, '{', '}'); items.next();) {
    found.push_back({scanner.string(), {}});
    scanner.expect(':');
    for (JsonScanner::Items numbers(scanner, '[', ']'); numbers.next();) {
      found.back().second.push_back(scanner.integer());
    }
  }
  EXPECT_TRUE(scanner.finished()) << scanner.problem();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, "a");
  EXPECT_EQ(found[0].second, (std::vector<int64_t>{1, 22}));
  EXPECT_TRUE(found[1].second.empty());
}

TEST(JsonScanner, Escapes) {
  EXPECT_EQ(scanned_string(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(scanned_string(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(scanned_string("\"\xc3\xa9\""), "\u00e9");
}

class Malformed : public testing::TestWithParam<const char*> {};

TEST_P(Malformed, StringIsRefused) {
  std::string problem;
  scanned_string(GetParam(), &problem);
  EXPECT_NE(problem, "") << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Strings, Malformed,
                         testing::Values("", "x", "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"",
                                         "\"\\ud83d\"", "\"\\ud83d\\u0041\"", "\"\\ude00\"",
                                         "\"\n\"", "\"a\" b"));

TEST(JsonScanner, Integers) {
  const auto scan = [](std::string_view text) {
    JsonScanner scanner(text);
    const int64_t value = scanner.integer();
    return scanner.finished() ? value : -1;
  };
  EXPECT_EQ(scan("0"), 0);
  EXPECT_EQ(scan(" 9223372036854775807 "), INT64_MAX);
  for (const char* wrong : {"", "-1", "01", "1.5", "1e3", "9223372036854775808", "1 2", "a"}) {
    EXPECT_EQ(scan(wrong), -1) << wrong;
  }
}

TEST(JsonScanner, ItemsNeedCommasBetweenThemOnly) {
  for (const char* wrong : {"[1 2]", "[1,]", "[,1]", "[1", "[", "1]", "[1,,2]"}) {
    JsonScanner scanner(wrong);
    for (JsonScanner::Items items(scanner, '[', ']'); items.next();) scanner.integer();
    EXPECT_FALSE(scanner.finished()) << wrong;
  }
}

TEST(JsonScanner, TheFirstProblemIsKept) {
  JsonScanner scanner("{]");
  scanner.expect('{');
  scanner.expect('}');
  scanner.expect('x');
  EXPECT_EQ(scanner.problem(), "expected '}' at byte 1");
}

}  // namespace
}  // namespace pteron::runner
