#include <gtest/gtest.h>

#include <string>

#include "pteron/extension/llm/tokenizer/pattern.h"

namespace pteron::llm {
namespace {

TEST(PatternTest, WhatTheLibrariesReadInAnotherWayIsRefused) {
  const char* const expressions[] = {
      "",      "(",       "\\h",       "\\v",    "\\R",     "\\b",   "\\1",
      "\\K",   "[\\W]",   "[a[b]]",    "[a&&b]", "[]a]",    "[^]]",  "(?<n>a)",
      "(?m)a", "a(?i)b",  "(?i-m:a)",  "(*F)",   "a{,2}",   "a{2}?", "a{1,2}+",
      "a{2}+", "a{ 1,2}", "\\p{None}", "\\pL",   "\\u0041", "\\",    "a\\"};
  for (const char* expression : expressions) {
    const Result<Pattern> pattern = Pattern::regex(expression);
    EXPECT_FALSE(pattern.ok()) << expression;
    EXPECT_EQ(pattern.error(), Error::NotSupported) << expression;
  }
}

TEST(PatternTest, WhatTakesTooLongIsAnError) {
  // Exponential: each of them has to be tried with and without each repetition.
  const Pattern pattern = *Pattern::regex("(?:a|a|aa)+\\z.");
  const Result<std::vector<Pattern::Range>> found = pattern.matches(std::string(5000, 'a'));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error(), Error::OutOfResources);
  EXPECT_NE(found.error().message().find("10 s of CPU time or 64 MiB"), std::string::npos);
}

TEST(PatternTest, LongTextsTakeLinearTime) {
  const Pattern pattern = *Pattern::regex(" ?\\p{L}+|\\s+(?!\\S)|\\s+");
  const std::string text = std::string(1 << 20, ' ') + std::string(1 << 20, 'a');
  const Result<std::vector<Pattern::Range>> found = pattern.matches(text);
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[1].begin, (1u << 20) - 1);
}

TEST(PatternTest, OtherBytesThanUtf8) {
  EXPECT_EQ(Pattern::literal("a").matches("a\xC3(").error(), Error::InvalidArgument);
}

}  // namespace
}  // namespace pteron::llm
