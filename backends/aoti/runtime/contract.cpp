#include "pteron/backends/aoti/runtime/contract.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace pteron::aoti {
namespace {

constexpr int64_t kUnknown = -1;

// "float32[s0 (1..64), 768]": a rule as text.
std::string describe(slim::DType dtype, const std::vector<DimContract>& dims) {
  std::string text = slim::name_of(dtype);
  text += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    const DimContract& dim = dims[i];
    if (i) text += ", ";
    if (dim.is_fixed()) {
      text += std::to_string(dim.min);
      continue;
    }
    if (dim.symbol >= 0) {
      if (dim.scale != 1) text += std::to_string(dim.scale) + "*";
      text += "s" + std::to_string(dim.symbol);
      if (dim.offset != 0) text += (dim.offset > 0 ? "+" : "") + std::to_string(dim.offset);
      text += ' ';
    }
    text += '(' + std::to_string(dim.min) + "..";
    if (dim.max != INT64_MAX) text += std::to_string(dim.max);
    text += ')';
  }
  return text + ']';
}

std::string describe(slim::DType dtype, Span<const int64_t> sizes) {
  std::string text = slim::name_of(dtype);
  text += '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + ']';
}

bool multiply(int64_t a, int64_t b, int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

}  // namespace

Result<Contract::TensorRule> Contract::make_rule(const TensorContract& contract) {
  TensorRule rule;
  rule.dtype = contract.dtype;
  rule.mutated = contract.mutated;
  rule.dims = contract.dims;
  rule.strides = contract.strides;
  rule.fixed_strides = true;
  for (const DimContract& dim : rule.dims) rule.fixed_strides &= dim.is_fixed();

  rule.order.resize(rule.dims.size());
  std::iota(rule.order.begin(), rule.order.end(), uint8_t{0});
  std::stable_sort(rule.order.begin(), rule.order.end(),
                   [&](uint8_t a, uint8_t b) { return rule.strides[a] > rule.strides[b]; });
  if (rule.fixed_strides) return rule;

  // Strides for other sizes follow from the dim order only if the largest shape is dense. An
  // unknown upper bound makes the strides of outer dimensions unknown too.
  int64_t expected = 1;
  for (auto i = rule.order.rbegin(); i != rule.order.rend(); ++i) {
    const DimContract& dim = rule.dims[*i];
    if (dim.max != 1 && rule.strides[*i] != expected) {
      return make_error(Error::NotSupported,
                        "%s with strides that leave gaps or overlap, and sizes that vary: make the "
                        "input contiguous before it is lowered",
                        describe(rule.dtype, rule.dims).c_str());
    }
    if (dim.max == INT64_MAX || !multiply(expected, std::max<int64_t>(dim.max, 1), &expected)) {
      break;
    }
  }
  return rule;
}

Result<Contract> Contract::make(const Metadata& metadata) {
  Contract contract;
  contract.known_ = true;
  for (size_t i = 0; i < metadata.inputs.size(); ++i) {
    Result<TensorRule> rule = make_rule(metadata.inputs[i]);
    if (!rule.ok()) return rule.take_error().with_context("input " + std::to_string(i));
    contract.inputs_.push_back(std::move(*rule));
  }
  for (const TensorContract& output : metadata.outputs) {
    // Any layout is accepted: outputs are copied to their destination.
    contract.outputs_.push_back(
        {output.dtype, output.mutated, false, output.dims, output.strides, {}});
  }
  for (const Condition& condition : metadata.conditions) {
    contract.conditions_.push_back({std::string(condition.relation), condition.left,
                                    condition.right, std::string(condition.text)});
  }
  contract.symbols_.resize(static_cast<size_t>(metadata.num_symbols), kUnknown);
  return contract;
}

void Contract::begin() { std::fill(symbols_.begin(), symbols_.end(), kUnknown); }

Error Contract::check_size(const DimContract& dim, int64_t size, int64_t* symbol) const {
  PTERON_CHECK_OR_RETURN(size >= dim.min && size <= dim.max, Error::InvalidArgument,
                         "size %lld is outside %lld..%lld", static_cast<long long>(size),
                         static_cast<long long>(dim.min), static_cast<long long>(dim.max));
  if (dim.symbol < 0 || dim.is_fixed()) return Error::Ok;
  int64_t multiple = 0;
  const bool exact = !__builtin_sub_overflow(size, dim.offset, &multiple) &&
                     !(multiple == INT64_MIN && dim.scale == -1) && multiple % dim.scale == 0;
  PTERON_CHECK_OR_RETURN(exact, Error::InvalidArgument,
                         "size %lld is no multiple of %lld plus %lld", static_cast<long long>(size),
                         static_cast<long long>(dim.scale), static_cast<long long>(dim.offset));
  const int64_t value = multiple / dim.scale;
  PTERON_CHECK_OR_RETURN(*symbol == kUnknown || *symbol == value, Error::InvalidArgument,
                         "size %lld makes s%d %lld, another input made it %lld",
                         static_cast<long long>(size), dim.symbol, static_cast<long long>(value),
                         static_cast<long long>(*symbol));
  *symbol = value;
  return Error::Ok;
}

// False on 64-bit overflow or division by 0.
bool Contract::compute(const std::vector<int64_t>& code, int64_t* result) const {
  int64_t stack[Condition::kMaxDepth];
  size_t depth = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const int64_t operation = code[i];
    if (operation == Condition::kConstant || operation == Condition::kSymbol) {
      ++i;
      stack[depth++] = operation == Condition::kConstant ? code[i] : symbols_[code[i]];
      continue;
    }
    const int64_t b = stack[--depth];
    int64_t& a = stack[depth - 1];
    if (operation == Condition::kAdd) {
      if (__builtin_add_overflow(a, b, &a)) return false;
    } else if (operation == Condition::kMultiply) {
      if (!multiply(a, b, &a)) return false;
    } else if (operation == Condition::kMax) {
      a = std::max(a, b);
    } else if (operation == Condition::kMin) {
      a = std::min(a, b);
    } else {
      if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
      const int64_t rest = a % b;
      const bool is_below = rest != 0 && (rest < 0) != (b < 0);  // C++ truncates
      a = operation == Condition::kModulo ? rest + is_below * b : a / b - is_below;
    }
  }
  *result = stack[0];
  return true;
}

Error Contract::check_conditions() const {
  for (const JointRule& rule : conditions_) {
    int64_t left = 0, right = 0;
    const std::string& relation = rule.relation;
    const bool holds = compute(rule.left, &left) && compute(rule.right, &right) &&
                       (relation == "=="   ? left == right
                        : relation == "!=" ? left != right
                        : relation == "<"  ? left < right
                        : relation == "<=" ? left <= right
                        : relation == ">"  ? left > right
                                           : left >= right);
    PTERON_CHECK_OR_RETURN(
        holds, Error::InvalidArgument,
        "the sizes of the inputs do not satisfy %s, on which the exported program "
        "relies: found %lld and %lld; give inputs of other sizes, or export the "
        "model so that it does not matter",
        rule.text.c_str(), static_cast<long long>(left), static_cast<long long>(right));
  }
  return Error::Ok;
}

Error Contract::mismatch(const char* kind, size_t i, const TensorRule& rule,
                         const std::string& found, const Error& why) const {
  return make_error(why.code(), "%s %zu: found %s, expected %s: %s", kind, i, found.c_str(),
                    describe(rule.dtype, rule.dims).c_str(), why.message().c_str());
}

Error Contract::check_input(size_t i, const Tensor& tensor, int64_t* strides, bool* fits) {
  *fits = true;
  if (!known_) {
    std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
    return Error::Ok;
  }
  const TensorRule& rule = inputs_[i];
  const size_t rank = rule.dims.size();
  if (__builtin_expect(slim::to_dtype(tensor.dtype()) != rule.dtype, 0)) {
    return mismatch("input", i, rule, tensor.describe(),
                    Error(Error::InvalidType, "another element type"));
  }
  if (__builtin_expect(tensor.dim() != rank, 0)) {
    return mismatch("input", i, rule, tensor.describe(),
                    Error(Error::InvalidArgument, "another number of dimensions"));
  }
  for (size_t d = 0; d < rank; ++d) {
    const DimContract& dim = rule.dims[d];
    if (dim.is_fixed() && tensor.size(d) == dim.min) continue;
    int64_t none = kUnknown;
    Error error = check_size(dim, tensor.size(d),
                             dim.symbol >= 0 ? &symbols_[static_cast<size_t>(dim.symbol)] : &none);
    if (!error.ok()) return mismatch("input", i, rule, tensor.describe(), error);
  }
  if (rule.fixed_strides) {
    std::copy(rule.strides.begin(), rule.strides.end(), strides);
  } else {
    int64_t stride = 1;
    for (size_t k = rank; k-- > 0;) {
      const size_t d = rule.order[k];
      strides[d] = stride;
      stride *= std::max<int64_t>(tensor.size(d), 1);
    }
  }
  for (size_t d = 0; d < rank; ++d) {
    if (tensor.size(d) > 1 && tensor.strides()[d] != strides[d]) *fits = tensor.numel() == 0;
  }
  return Error::Ok;
}

Error Contract::check_output(size_t i, slim::DType dtype, Span<const int64_t> sizes) const {
  if (!known_) return Error::Ok;
  const TensorRule& rule = outputs_[i];
  if (dtype != rule.dtype) {
    return mismatch("output", i, rule, describe(dtype, sizes),
                    Error(Error::Internal, "the code computed another element type"));
  }
  if (sizes.size() != rule.dims.size()) {
    return mismatch("output", i, rule, describe(dtype, sizes),
                    Error(Error::Internal, "the code computed another number of dimensions"));
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    const DimContract& dim = rule.dims[d];
    if (sizes[d] >= dim.min && sizes[d] <= dim.max) continue;
    return mismatch("output", i, rule, describe(dtype, sizes),
                    Error(Error::Internal, "the code computed a size out of bounds"));
  }
  return Error::Ok;
}

}  // namespace pteron::aoti
