// Shows that googletest and googlemock build, link and run here.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrictMock;

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void heard(const std::string& word) = 0;
};

class MockListener : public Listener {
 public:
  MOCK_METHOD(void, heard, (const std::string& word), (override));
};

TEST(Googletest, MatchesContainers) {
  const std::vector<int> squares = {1, 4, 9};
  EXPECT_THAT(squares, ElementsAre(1, 4, 9));
}

TEST(Googletest, MocksInterfaces) {
  StrictMock<MockListener> listener;
  EXPECT_CALL(listener, heard(HasSubstr("load"))).Times(1);
  static_cast<Listener&>(listener).heard("reload");
}

TEST(Googletest, ReportsFailures) { EXPECT_NONFATAL_FAILURE(EXPECT_EQ(1 + 1, 3), "1 + 1"); }

}  // namespace
