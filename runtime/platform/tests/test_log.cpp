#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pteron/runtime/platform/log.h"

namespace pteron {
namespace {

using Messages = std::vector<std::pair<LogLevel, std::string>>;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    set_log_sink([](LogLevel level, const char* message,
                    void* user) { static_cast<Messages*>(user)->emplace_back(level, message); },
                 &messages_);
  }
  ~LogTest() override {
    set_log_sink(nullptr, nullptr);
    set_log_level(LogLevel::Warning);
  }

  Messages messages_;
};

TEST_F(LogTest, Examples) {
  PTERON_LOG(Warning, "%d of %s", 3, "them");
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_EQ(messages_[0].first, LogLevel::Warning);
  EXPECT_EQ(messages_[0].second, "3 of them");
}

TEST_F(LogTest, DropsWhatIsBelowTheLevelWithoutFormattingIt) {
  int formatted = 0;
  const auto count = [&] { return ++formatted; };
  PTERON_LOG(Info, "%d", count());
  EXPECT_EQ(formatted, 0);
  set_log_level(LogLevel::Debug);
  PTERON_LOG(Info, "%d", count());
  EXPECT_EQ(formatted, 1);
  set_log_level(LogLevel::Off);
  PTERON_LOG(Error, "%d", count());
  EXPECT_EQ(formatted, 1);
  EXPECT_EQ(messages_.size(), 1u);
}

}  // namespace
}  // namespace pteron
