#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/backend/interface.h"

namespace pteron {
namespace {

class NoBackend final : public BackendInterface {
 public:
  Result<std::unique_ptr<Delegate>> init(BackendInitContext&, Span<const uint8_t>,
                                         Span<const CompileSpec>) override {
    return Error::NotImplemented;
  }
};

TEST(BackendRegistryTest, Examples) {
  auto backend = std::make_unique<NoBackend>();
  BackendInterface* const expected = backend.get();
  ASSERT_TRUE(register_backend("ZBackend", std::move(backend)).ok());
  ASSERT_TRUE(register_backend("ABackend", std::make_unique<NoBackend>()).ok());
  EXPECT_EQ(find_backend("ZBackend"), expected);
  EXPECT_EQ(find_backend("zbackend"), nullptr);
  EXPECT_EQ(registered_backends(), (std::vector<std::string>{"ABackend", "ZBackend"}));

  Error again = register_backend("ZBackend", std::make_unique<NoBackend>());
  EXPECT_EQ(again, Error::AlreadyLoaded);
  EXPECT_NE(again.message().find("ZBackend"), std::string::npos);
  EXPECT_EQ(find_backend("ZBackend"), expected);
}

TEST(BackendRegistryTest, RefusesNoIdAndNoObject) {
  EXPECT_EQ(register_backend("", std::make_unique<NoBackend>()), Error::InvalidArgument);
  EXPECT_EQ(register_backend("Null", nullptr), Error::InvalidArgument);
}

struct CountingTracer final : EventTracer {
  uint64_t begin(std::string_view, std::string_view) override { return ++begun; }
  void end(uint64_t event) override { ended += event; }
  uint64_t begun = 0;
  uint64_t ended = 0;
};

TEST(TraceScopeTest, EndsWhatItBegan) {
  CountingTracer tracer;
  {
    TraceScope scope(&tracer, "test", "scope");
    EXPECT_EQ(tracer.ended, 0u);
  }
  EXPECT_EQ(tracer.begun, 1u);
  EXPECT_EQ(tracer.ended, 1u);
  TraceScope nobody(nullptr, "test", "scope");
}

}  // namespace
}  // namespace pteron
