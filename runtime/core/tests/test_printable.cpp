#include <gtest/gtest.h>

#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/printable.h"

namespace pteron {
namespace {

TEST(PrintableTest, TextStays) {
  for (const char* text : {"", "plain, \"quoted\" \\x1b", "\u00e4\u6f22\U0001f600\u00a0\ufeff"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, CommandsAreWrittenOut) {
  EXPECT_EQ(printable("a\x1b[2J\x7f\r\n"), "a\\x1b[2J\\x7f\\x0d\\x0a");
  EXPECT_EQ(printable("a\nb\r", Newlines::Keep), "a\nb\\x0d");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");
  EXPECT_EQ(printable("\u202eabc"), "\\xe2\\x80\\xaeabc");
}

TEST(PrintableTest, WhatIsNoUtf8IsWrittenOut) {
  EXPECT_EQ(printable("\x9b\xff"), "\\x9b\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xf0\x9f\x98"), "\\xf0\\x9f\\x98");
}

TEST(PrintableTest, ErrorsArePrintable) {
  const Error error = make_error(Error::NotFound, "no \"%s\"\n  try", "\x1b[31m");
  EXPECT_EQ(error.message(), "no \"\\x1b[31m\"\n  try");
  EXPECT_EQ(make_error(Error::NotFound, "b").with_context("a\x07").message(), "a\\x07: b");
}

}  // namespace
}  // namespace pteron
