// Operators' C functions, with arguments that no compiled model would give them: whatever they are,
// a call ends in a status, its message and results of their own memory.
//
// An input names one of the calls that tests compare with torch (backends/aoti/ops/*/tests/cases.py)
// and how its arguments are edited: sizes, strides, offsets, dtypes, elements, scalars, lists. Each
// tensor has memory of exactly its extent, and so have results and intermediates (guard_pages.h).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/ops/tests/call.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cpu, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"

namespace pteron::aoti {
namespace {

using conformance::Json;
using slim::DType;
using slim::Scalar;
using slim::SlimTensor;
using slim::TensorPtr;

constexpr size_t kMaxElements = 512;
constexpr size_t kMaxNbytes = 1 << 16;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// What the fuzzer decides, byte by byte; zeros after the end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool at_end() const { return left_ == 0; }
  size_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : byte() % bound; }
  template <typename T, size_t kSize>
  T one_of(const std::array<T, kSize>& values) {
    return values[below(kSize)];
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

// An argument of a call.
struct Value {
  enum class Kind { Null, Tensor, Number, Text, Numbers, Tensors };
  Kind kind = Kind::Null;
  // Tensor; row-major elements, which repeat.
  DType dtype = DType::Float;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  std::vector<Scalar> elements;
  int alias = -1;  // the argument whose memory it has
  // Number, also a dtype's; a text that is a number or a dtype is one, too.
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<Value> tensors;

  // INT64_MAX if it cannot be counted.
  int64_t numel() const {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
    int64_t numel = 1;
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(numel, size, &numel)) return INT64_MAX;
    }
    return numel;
  }
};

using Arguments = std::vector<Value>;

Value read_value(const Json& json) {
  Value value;
  if (json.is_object()) {
    value.kind = Value::Kind::Tensor;
    value.dtype = conformance::dtype_of(json);
    value.sizes = json.at("sizes").get<std::vector<int64_t>>();
    value.strides = conformance::strides_of(json);
    value.offset = json.value("offset", int64_t{0});
    value.alias = json.value("of", -1);
    if (value.alias < 0 && value.numel() <= int64_t{kMaxElements}) {
      value.elements = conformance::elements_of(json);
    }
  } else if (json.is_array()) {
    const bool numbers = std::all_of(json.begin(), json.end(),
                                     [](const Json& item) { return item.is_number_integer(); });
    value.kind = numbers ? Value::Kind::Numbers : Value::Kind::Tensors;
    for (const Json& item : json) {
      if (numbers) {
        value.integers.push_back(item.get<int64_t>());
      } else {
        value.tensors.push_back(read_value(item));
      }
    }
  } else if (json.is_string()) {
    value.kind = Value::Kind::Text;
    value.text = json.get<std::string>();
    value.real = std::strtod(value.text.c_str(), nullptr);
    for (int32_t number = 0; number < 128; ++number) {
      DType dtype;
      if (slim::to_dtype(number, &dtype) && value.text == slim::name_of(dtype)) {
        value.integer = number;
      }
    }
  } else if (!json.is_null()) {
    value.kind = Value::Kind::Number;
    value.integer = json.is_boolean() ? json.get<bool>() : json.get<int64_t>();
    value.real = json.is_boolean() ? value.integer : json.get<double>();
  }
  return value;
}

// Of the tensors, so many bytes behind the offset.
size_t extent_of(const Value& tensor) {
  const auto nbytes =
      slim::storage_nbytes({tensor.sizes.data(), tensor.sizes.size()},
                           {tensor.strides.data(), tensor.strides.size()}, tensor.dtype);
  return nbytes.ok() ? *nbytes : SIZE_MAX;
}

bool is_small(const Value& value) {
  if (value.kind == Value::Kind::Tensors) {
    return std::all_of(value.tensors.begin(), value.tensors.end(), is_small);
  }
  return value.kind != Value::Kind::Tensor ||
         (extent_of(value) <= kMaxNbytes && value.numel() <= int64_t{kMaxElements} &&
          value.offset >= 0 && value.offset <= 64);
}

constexpr std::array<int64_t, 24> kIntegers = {
    0,  1,  2,  3,  4,   5,         7,         8,         9,         16,        17,        -1,
    -2, -3, -4, -5, 100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 32, 1LL << 62, 255};
constexpr std::array<int64_t, 12> kSizes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};
constexpr std::array<int64_t, 10> kStrides = {0, 1, 2, 3, 4, 5, 6, 8, 9, 20};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<double, 14> kReals = {
    0,   -0.0, 0.5,  1,      2,         -1,         -3,
    1e9, -1e9, 1e30, -1e300, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
const std::array<const char*, 14> kTexts = {"",         "sum",      "prod", "mean",  "amax",
                                            "amin",     "reduced",  "left", "right", "lstm",
                                            "rnn_tanh", "complete", "U",    "r"};

void edit_tensor(Choices& choices, Value& tensor, size_t num_arguments) {
  const auto at = [&](auto& list) -> auto& { return list[choices.below(list.size())]; };
  switch (choices.below(10)) {
    case 0:
    case 1:  // a size, row-major
      if (!tensor.sizes.empty()) at(tensor.sizes) = choices.one_of(kSizes);
      if (tensor.numel() <= int64_t{kMaxElements}) {
        slim::contiguous_strides({tensor.sizes.data(), tensor.sizes.size()}, tensor.strides.data());
      }
      break;
    case 2:
      if (!tensor.sizes.empty()) at(tensor.sizes) = choices.one_of(kSizes);
      break;
    case 3:
      if (!tensor.strides.empty()) at(tensor.strides) = choices.one_of(kStrides);
      break;
    case 4:
      (void)slim::to_dtype(static_cast<int32_t>(choices.below(48)), &tensor.dtype);
      break;
    case 5: {  // a dimension more
      const auto d = static_cast<std::ptrdiff_t>(choices.below(tensor.sizes.size() + 1));
      tensor.sizes.insert(tensor.sizes.begin() + d, choices.one_of(kSizes));
      tensor.strides.insert(tensor.strides.begin() + d, choices.one_of(kStrides));
      break;
    }
    case 6:
      if (!tensor.sizes.empty()) {
        const auto d = static_cast<std::ptrdiff_t>(choices.below(tensor.sizes.size()));
        tensor.sizes.erase(tensor.sizes.begin() + d);
        tensor.strides.erase(tensor.strides.begin() + d);
      }
      break;
    case 7:
      if (!tensor.elements.empty()) {
        at(tensor.elements) = choices.below(2) ? Scalar::of(choices.one_of(kIntegers))
                                               : Scalar::of(choices.one_of(kReals));
      }
      break;
    case 8:
      tensor.offset = static_cast<int64_t>(choices.below(8));
      break;
    default:
      tensor.alias = static_cast<int>(choices.below(num_arguments + 1)) - 1;
  }
}

void edit(Choices& choices, Arguments& arguments) {
  if (arguments.empty()) return;
  Value& value = arguments[choices.below(arguments.size())];
  const Value before = value;
  const size_t how = choices.below(16);
  if (how == 0) {  // what another argument is
    value = Value(arguments[choices.below(arguments.size())]);
  } else if (how == 1) {  // none, or one after all
    value.kind = value.kind == Value::Kind::Null ? Value::Kind::Number : Value::Kind::Null;
  } else {
    switch (value.kind) {
      case Value::Kind::Tensor:
        edit_tensor(choices, value, arguments.size());
        break;
      case Value::Kind::Number:
        value.integer = choices.one_of(kIntegers);
        value.real = choices.below(2) ? static_cast<double>(value.integer) : choices.one_of(kReals);
        break;
      case Value::Kind::Text:
        value.text = choices.one_of(kTexts);
        break;
      case Value::Kind::Numbers:
        if (choices.below(4) == 0) {
          value.integers.resize(choices.below(7), choices.one_of(kIntegers));
        } else if (!value.integers.empty()) {
          value.integers[choices.below(value.integers.size())] = choices.one_of(kIntegers);
        }
        break;
      case Value::Kind::Tensors:
        if (choices.below(4) == 0) {
          value.tensors.resize(choices.below(6));
        } else if (!value.tensors.empty()) {
          Value& item = value.tensors[choices.below(value.tensors.size())];
          if (item.kind == Value::Kind::Tensor) edit_tensor(choices, item, arguments.size());
        }
        break;
      case Value::Kind::Null:
        break;
    }
  }
  if (!is_small(value)) value = before;
}

// The arguments in memory, while a call lasts.
class Call {
 public:
  explicit Call(const Arguments& arguments) : arguments_(arguments), made_(arguments.size()) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const auto& result : results_) delete *result;
  }

  const Value& next() {
    static const Value none;
    return position_ < arguments_.size() ? arguments_[position_++] : none;
  }

  AtenTensorHandle tensor(const Value& value) {
    if (value.kind != Value::Kind::Tensor) return nullptr;
    const size_t current = position_ - 1;
    const Span<const int64_t> sizes(value.sizes.data(), value.sizes.size()),
        strides(value.strides.data(), value.strides.size());
    auto tensor = std::make_unique<SlimTensor>();
    const SlimTensor* const other = value.alias >= 0 && static_cast<size_t>(value.alias) < current
                                        ? made_[value.alias]
                                        : nullptr;
    if (!other || !tensor->set(other->storage(), sizes, strides, value.offset, value.dtype).ok()) {
      const size_t item = slim::element_size(value.dtype);
      const size_t nbytes = extent_of(value) + static_cast<size_t>(value.offset) * item;
      memory_.push_back(std::make_unique<uint8_t[]>(nbytes));
      uint8_t* const data = memory_.back().get();
      fill(value, data, nbytes, item);
      auto made = slim::make_tensor_from_blob(data, sizes, strides, value.offset, value.dtype,
                                              Device{}, nbytes);
      if (!made.ok()) return nullptr;
      tensor = std::move(*made);
    }
    tensors_.push_back(std::move(tensor));
    if (!made_[current]) made_[current] = tensors_.back().get();
    return tensors_.back().get();
  }

  AtenTensorHandle* add_result() {
    results_.push_back(std::make_unique<AtenTensorHandle>(nullptr));
    return results_.back().get();
  }

  // A copy that lives as long as the call.
  template <typename T>
  T* keep(T value) {
    auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return kept.get();
  }

  // Results are there if and only if the call succeeded, and all of their elements can be read.
  void check(int32_t status) const {
    require(status == kAotiSuccess || status == kAotiFailure, "neither success nor failure");
    require(status == kAotiSuccess || !shim_error().empty(), "a failure without a message");
    for (const auto& result : results_) {
      require((*result != nullptr) == (status == kAotiSuccess), "a result of a failure, or none");
      if (*result) read(**result);
    }
  }

 private:
  static void fill(const Value& value, uint8_t* data, size_t nbytes, size_t item) {
    std::memset(data, value.dtype == DType::Bool ? 1 : 0x71, nbytes);
    if (value.elements.empty()) return;
    const int64_t numel = value.numel();
    for (int64_t i = 0; i < numel; ++i) {
      int64_t at = value.offset, rest = i;
      for (size_t d = value.sizes.size(); d-- > 0;) {
        at += rest % value.sizes[d] * value.strides[d];
        rest /= value.sizes[d];
      }
      slim::store_scalar(value.dtype, data + static_cast<size_t>(at) * item,
                         value.elements[static_cast<size_t>(i) % value.elements.size()]);
    }
  }

  static void read(const SlimTensor& result) {
    SlimTensor same;
    require(same.set(result.storage(), result.sizes(), result.strides(), result.storage_offset(),
                     result.dtype())
                .ok(),
            "a result is not in its memory");
    static volatile uint8_t sink;
    const auto* const data = static_cast<const uint8_t*>(result.storage()->data);
    uint8_t all = 0;
    for (size_t i = 0; i < result.storage()->nbytes; ++i) all ^= data[i];
    sink = all;
  }

  const Arguments& arguments_;
  size_t position_ = 0;
  std::vector<SlimTensor*> made_;  // the first tensor of each argument
  std::vector<TensorPtr> tensors_;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  std::vector<std::unique_ptr<AtenTensorHandle>> results_;
  std::vector<std::shared_ptr<void>> kept_;
};

// How the next argument is passed, for each type of parameter (ops/parameters.h).
namespace bind {

inline auto argument(Call& call, parameter::Tensor*) {
  return std::tuple(call.tensor(call.next()));
}

inline auto argument(Call& call, parameter::OptionalTensor*) {
  AtenTensorHandle handle = call.tensor(call.next());
  return std::tuple(handle ? call.keep(handle) : nullptr);
}

inline auto argument(Call& call, parameter::OptionalTensorList*) {
  std::vector<const AtenTensorHandle*> handles;
  for (const Value& item : call.next().tensors) {
    AtenTensorHandle handle = call.tensor(item);
    handles.push_back(handle ? call.keep(handle) : nullptr);
  }
  const auto length = static_cast<int64_t>(handles.size());
  return std::tuple<const AtenTensorHandle**, int64_t>(call.keep(std::move(handles))->data(),
                                                       length);
}

template <typename T>
T number(const Value& value) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(value.integer);
  return static_cast<T>(value.real);
}

template <typename T>
auto argument(Call& call, parameter::Plain<T>*) {
  return std::tuple(number<T>(call.next()));
}

template <typename T>
auto argument(Call& call, parameter::Plain<const T*>*) {
  const Value& value = call.next();
  return std::tuple<T*>(value.kind == Value::Kind::Null ? nullptr : call.keep(number<T>(value)));
}

inline auto argument(Call& call, parameter::String*) {
  const Value& value = call.next();
  return std::tuple<const char*>(value.kind == Value::Kind::Null ? nullptr : value.text.c_str());
}

inline auto argument(Call& call, parameter::OptionalString*) {
  const char* text = std::get<0>(argument(call, static_cast<parameter::String*>(nullptr)));
  return std::tuple<const char**>(text ? call.keep(text) : nullptr);
}

inline auto argument(Call& call, parameter::OptionalDevice*) {
  const Value& value = call.next();
  return std::tuple<int32_t*, int32_t>(
      value.kind == Value::Kind::Null ? nullptr : call.keep(number<int32_t>(value)), -1);
}

inline auto argument(Call& call, parameter::Generator*) {
  call.next();
  return std::tuple<void**>(nullptr);
}

inline auto argument(Call& call, parameter::IntList*) {
  const std::vector<int64_t>& integers = call.next().integers;
  return std::tuple<const int64_t*, int64_t>(integers.data(),
                                             static_cast<int64_t>(integers.size()));
}

inline auto argument(Call& call, parameter::Result*) { return std::tuple(call.add_result()); }

// Braces keep the order of the arguments.
template <typename Function, typename... Parts>
int32_t invoke(Function function, std::tuple<Parts...> parts) {
  return std::apply([&](auto&&... part) { return std::apply(function, std::tuple_cat(part...)); },
                    parts);
}

}  // namespace bind

#define PTERON_B_One(type, x) bind::argument(call, static_cast<type*>(nullptr))
#define PTERON_B_Two PTERON_B_One

using Shim = int32_t (*)(Call&);
const std::map<std::string, Shim> kShims = {
#define AOTI_SHIM(name, since, ...)                                                                \
  {#name, [](Call& call) {                                                                         \
     return bind::invoke(&ptrn_torch_cpu_##name, std::tuple{PTERON_EACH(PTERON_B_, __VA_ARGS__)}); \
   }},
#include "pteron/backends/cpu/runtime/shims/shims.inc"
};

struct Case {
  Shim shim;
  Arguments arguments;
};

// Small cases of all families, in an order that does not change.
std::vector<Case> read_cases() {
  // In the folder of its runfiles, where Bazel starts it.
  std::vector<std::filesystem::path> files;
  for (const auto& family : std::filesystem::directory_iterator("backends/aoti/ops")) {
    files.push_back(family.path() / "goldens.json");
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& path : files) {
    std::ifstream file(path);
    if (!file) continue;
    for (const Json& item : Json::parse(file)) {
      const auto shim = kShims.find(item.at("shim").get<std::string>());
      if (shim == kShims.end()) continue;
      Case found{shim->second, {}};
      for (const Json& argument : item.at("arguments")) {
        found.arguments.push_back(read_value(argument));
      }
      if (std::all_of(found.arguments.begin(), found.arguments.end(), is_small)) {
        cases.push_back(std::move(found));
      }
    }
  }
  return cases;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = read_cases();
  return all;
}

void call(const Case& with, const Arguments& arguments) {
  clear_shim_error();
  Call call(arguments);
  call.check(with.shim(call));
}

}  // namespace
}  // namespace pteron::aoti

using namespace pteron::aoti;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  ::setenv("PTERON_GUARD_PAGES", "end", /*overwrite=*/0);
  pteron::cpu::openmp::set_max_threads(1);
  for (const Case& each : cases()) call(each, each.arguments);
  std::fprintf(stderr, "%zu calls of %zu operators\n", cases().size(), kShims.size());
  require(cases().size() > 1000, "the cases of tests are not here");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  const size_t which = choices.byte() << 8 | choices.byte();
  const Case& chosen = cases()[which % cases().size()];
  Arguments arguments = chosen.arguments;
  while (!choices.at_end()) edit(choices, arguments);
  call(chosen, arguments);
  return 0;
}
