#include "pteron/backends/aoti/ops/tests/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/shims/c_boundary.h"

namespace pteron::aoti::conformance {
namespace {

using slim::DType;
using slim::SlimTensor;

// Where the repository's files are, as Bazel tells tests.
std::string source_folder() {
  const char *root = std::getenv("TEST_SRCDIR"), *repository = std::getenv("TEST_WORKSPACE");
  return root && repository ? std::string(root) + "/" + repository + "/" : "";
}

// Whether there is a tensor of one of `dtypes` in it, or a name of one.
bool names_one_of(const std::set<std::string>& dtypes, const Json& value) {
  if (value.is_string()) return dtypes.count(value.get<std::string>()) != 0;
  return value.is_structured() && std::any_of(value.begin(), value.end(), [&](const Json& inner) {
           return names_one_of(dtypes, inner);
         });
}

// Those of shims that the device has.
const std::vector<Json>& cases() {
  static const std::vector<Json> all = [] {
    const DeviceShims device = device_shims();
    std::vector<Json> found;
    std::set<std::filesystem::path> families;
    for (const auto& entry :
         std::filesystem::directory_iterator(source_folder() + "backends/aoti/ops")) {
      families.insert(entry.path() / "goldens.json");
    }
    for (const std::filesystem::path& family : families) {
      std::ifstream file(family);
      if (!file) continue;
      for (Json& item : Json::parse(file)) {
        const bool host = device.device.type == DeviceType::CPU || !item.contains("host");
        if (!host || device.shims.count(item.at("shim")) == 0) continue;
        if (!names_one_of(device.lacks, item)) found.push_back(std::move(item));
      }
    }
    return found;
  }();
  return all;
}

std::string text_of(const Scalar& element, DType dtype) {
  std::ostringstream text;
  text.precision(9);
  if (slim::is_complex(dtype)) {
    text << element.to_complex();
  } else if (slim::is_floating_point(dtype)) {
    text << element.to_double();
  } else {
    text << element.to_int64();
  }
  return text.str();
}

// Equal, or as near as `bound`; NaN and infinities only to themselves.
bool near(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= bound;
}

// `tolerance` is relative to the largest finite element.
testing::AssertionResult equal(const std::vector<Scalar>& found, const Json& wanted_tensor,
                               double tolerance) {
  const DType dtype = dtype_of(wanted_tensor);
  // Of large tensors every so many elements are stored.
  const auto every = wanted_tensor.value("every", size_t{1});
  Json stored = wanted_tensor;
  stored["sizes"] = {wanted_tensor.at("data").size()};
  const std::vector<Scalar> wanted = elements_of(stored);
  if ((found.size() + every - 1) / every != wanted.size()) {
    return testing::AssertionFailure() << found.size() << " elements";
  }
  double largest = 0;
  for (const Scalar& element : wanted) {
    const double size = std::abs(element.complex_value);
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Scalar &a = found[k * every], &b = wanted[k];
    const std::complex<double>&x = a.complex_value, &y = b.complex_value;
    const bool same = a.kind == Scalar::Kind::Complex
                          ? near(x.real(), y.real(), tolerance * largest) &&
                                near(x.imag(), y.imag(), tolerance * largest)
                          : a.to_int64() == b.to_int64();
    if (!same) {
      return testing::AssertionFailure()
             << "element " << k * every << " is " << text_of(a, dtype) << ", expected "
             << text_of(b, dtype) << " (tolerance " << tolerance << " of " << largest << ")";
    }
  }
  return testing::AssertionSuccess();
}

// Strides count only where a dimension has several elements.
bool same_strides(const SlimTensor& found, const std::vector<int64_t>& wanted) {
  if (found.numel() == 0) return true;
  for (size_t d = 0; d < found.dim(); ++d) {
    if (found.size(d) > 1 && found.stride(d) != wanted[d]) return false;
  }
  return true;
}

void check_tensor(const Call& call, const SlimTensor& found, const Json& wanted, double tolerance,
                  bool check_values) {
  const std::vector<int64_t> sizes = wanted.at("sizes");
  EXPECT_STREQ(slim::name_of(found.dtype()), slim::name_of(dtype_of(wanted)));
  ASSERT_EQ(std::vector<int64_t>(found.sizes().begin(), found.sizes().end()), sizes);
  EXPECT_TRUE(same_strides(found, strides_of(wanted)))
      << found.describe() << ", expected strides " << Json(strides_of(wanted));
  if (check_values && found.dtype() == dtype_of(wanted)) {
    EXPECT_TRUE(equal(call.read(found), wanted, tolerance)) << found.describe();
  }
}

class Conformance : public testing::TestWithParam<size_t> {};

TEST_P(Conformance, IsWhatTorchDoes) {
  const DeviceShims device = device_shims();
  const Json& item = cases()[GetParam()];
  const bool fails = item.contains("error");
  if (device.why_not) GTEST_SKIP() << device.why_not;
  Call call(device.device, item.at("arguments"));
  clear_shim_error();
  const int32_t status = device.shims.at(item.at("shim"))(call);
  if (fails) {
    EXPECT_EQ(status, kAotiFailure);
    for (const std::string part : item["error"]) {
      EXPECT_NE(shim_error().find(part), std::string::npos) << shim_error();
    }
    for (size_t i = 0; i < call.num_results(); ++i) EXPECT_EQ(call.result(i), nullptr);
    EXPECT_TRUE(call.wrote_only(-1)) << "an argument was written";
    return;
  }
  ASSERT_EQ(status, kAotiSuccess) << shim_error();
  const double tolerance = item.value("tolerance", 0.0);
  const std::set<size_t> unchecked = item.value("unchecked", std::set<size_t>());
  const Json results = item.value("results", Json::array());
  ASSERT_EQ(call.num_results(), results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    ASSERT_NE(call.result(i), nullptr);
    if (results[i].is_null()) continue;
    Json wanted = results[i];
    // The rows of Vh are contiguous in torch on CUDA, its columns elsewhere.
    const bool is_vh = item.at("shim") == "_linalg_svd" && i == 2;
    if (is_vh && device.device.type == DeviceType::CUDA) wanted.erase("strides");
    check_tensor(call, *call.result(i), wanted, tolerance, unchecked.count(i) == 0);
  }
  const int written = item.contains("written") ? item["written"].value("argument", 0) : -1;
  if (written >= 0) {
    check_tensor(call, *call.argument(static_cast<size_t>(written)), item["written"]["tensor"],
                 tolerance, unchecked.count(0) == 0);
  }
  EXPECT_TRUE(call.wrote_only(written)) << "an argument was written";
}

std::string name_of_case(const testing::TestParamInfo<size_t>& info) {
  std::string name = cases()[info.param].at("case");
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, testing::Range(size_t{0}, cases().size()), name_of_case);

TEST(Coverage, EveryShimHasACaseAndAnError) {
  std::set<std::string> right, wrong;
  for (const Json& item : cases()) (item.contains("error") ? wrong : right).insert(item.at("shim"));
  for (const auto& [name, shim] : device_shims().shims) {
    EXPECT_EQ(right.count(name), 1u) << name << " has no case";
    EXPECT_EQ(wrong.count(name), 1u) << name << " has no case of wrong arguments";
  }
}

}  // namespace
}  // namespace pteron::aoti::conformance
