#include "pteron/runtime/executor/input_checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace pteron {
namespace {

std::string list(Span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string list(const std::vector<uint8_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

// Whether the strides match the method's. Strides of dimensions of size 1, and of empty tensors,
// are ignored.
bool is_laid_out(const Tensor& tensor, const std::vector<uint8_t>& dim_order) {
  if (tensor.numel() == 0) return true;
  int64_t stride = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    const uint8_t dim = dim_order[i];
    if (tensor.size(dim) == 1) continue;
    if (tensor.strides()[dim] != stride) return false;
    stride *= tensor.size(dim);
  }
  return true;
}

bool is_size(const ValueMeta& meta, size_t dim, int64_t size) {
  return meta.dynamism == ShapeDynamism::Static ? size == meta.sizes[dim] : size <= meta.sizes[dim];
}

bool has_sizes(const ValueMeta& meta, const Tensor& tensor, const std::vector<int64_t>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (!is_size(meta, i, tensor.size(order[i]))) return false;
  }
  return true;
}

// An order of its dimensions in which a tensor of other sizes would be an input: the last one, of
// channels, moved to the first or second place, or two exchanged. Empty if there is none.
std::vector<int64_t> fitting_order(const ValueMeta& meta, const Tensor& tensor) {
  std::vector<int64_t> order(tensor.dim());
  std::iota(order.begin(), order.end(), 0);
  for (size_t first = 0; first < 2 && first + 2 < order.size(); ++first) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    std::rotate(begin, order.end() - 1, order.end());
    if (has_sizes(meta, tensor, order)) return order;
    std::rotate(begin, begin + 1, order.end());
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      std::swap(order[i], order[j]);
      if (has_sizes(meta, tensor, order)) return order;
      std::swap(order[i], order[j]);
    }
  }
  return {};
}

void check_sizes(const std::string& input, const ValueMeta& meta, const Tensor& tensor,
                 ErrorList* errors) {
  std::vector<size_t> wrong;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (!is_size(meta, i, tensor.size(i))) wrong.push_back(i);
  }
  if (wrong.empty()) return;
  const std::vector<int64_t> order = fitting_order(meta, tensor);
  if (!order.empty()) {
    const std::string text = list(order);
    errors->add(Error::InvalidArgument,
                "%s: it is %s, expected %s; its dimensions fit in another order: permute(%s)",
                input.c_str(), tensor.describe().c_str(), meta.describe().c_str(),
                text.substr(1, text.size() - 2).c_str());
    return;
  }
  const bool is_static = meta.dynamism == ShapeDynamism::Static;
  for (const size_t i : wrong) {
    errors->add(Error::InvalidArgument, "%s: dimension %zu is %lld, expected %s%lld; export it %s",
                input.c_str(), i, static_cast<long long>(tensor.size(i)),
                is_static ? "" : "at most ", static_cast<long long>(meta.sizes[i]),
                is_static ? "as dynamic if it is to change" : "with a larger max");
  }
}

void check_tensor(const std::string& input, const ValueMeta& meta, const Tensor& tensor,
                  ErrorList* errors) {
  if (tensor.dtype() != meta.dtype) {
    errors->add(Error::InvalidType,
                "%s: it is %s, expected %s; convert it, or export the model with an input of %s",
                input.c_str(), name_of(tensor.dtype()), name_of(meta.dtype),
                name_of(tensor.dtype()));
  }
  if (tensor.device() != meta.device) {
    errors->add(Error::InvalidArgument, "%s: it is on %s, expected on %s; copy it there",
                input.c_str(), describe(tensor.device()).c_str(), describe(meta.device).c_str());
  }
  if (tensor.dim() != meta.sizes.size()) {
    errors->add(
        Error::InvalidArgument,
        "%s: it has %zu dimensions (%s), expected %zu (%s); reshape it, or export the model "
        "with such an input",
        input.c_str(), tensor.dim(), tensor.describe().c_str(), meta.sizes.size(),
        meta.describe().c_str());
    return;
  }
  check_sizes(input, meta, tensor, errors);
  if (!is_laid_out(tensor, meta.dim_order)) {
    errors->add(Error::InvalidArgument,
                "%s: its strides are %s, expected dense in dim order %s; make it contiguous",
                input.c_str(), list(tensor.strides()).c_str(), list(meta.dim_order).c_str());
  }
  if (tensor.numel() > 0 && !tensor.data()) {
    errors->add(Error::InvalidArgument, "%s: %s has no data; a fake tensor, for one, has none",
                input.c_str(), tensor.describe().c_str());
  }
  if (meta.written && tensor.is_constant()) {
    errors->add(Error::InvalidArgument,
                "%s: it is read-only, and the method changes it in place; pass a copy",
                input.c_str());
  }
}

bool equals(double found, double expected) {
  if (std::isnan(expected)) return std::isnan(found);
  if (found == expected) return true;
  // Accepts values that were converted through float32 or text.
  return std::fabs(found - expected) <= 1e-6 * std::max(1.0, std::fabs(expected));
}

// Whether a scalar or string equals the one at export.
bool equals_exported(const ValueMeta& meta, const EValue& value) {
  switch (meta.kind) {
    case ValueKind::Int:
      return value.to_int() == std::get<int64_t>(meta.value);
    case ValueKind::Bool:
      return value.to_bool() == std::get<bool>(meta.value);
    case ValueKind::Double:
      return equals(value.to_double(), std::get<double>(meta.value));
    case ValueKind::String:
      return value.to_string() == std::get<std::string>(meta.value);
    default:
      return true;
  }
}

bool is_tensor(const ValueMeta& meta, const Tensor& tensor) {
  const size_t dim = meta.sizes.size();
  if (tensor.dtype() != meta.dtype || tensor.device() != meta.device || tensor.dim() != dim) {
    return false;
  }
  for (size_t i = 0; i < dim; ++i) {
    if (!is_size(meta, i, tensor.size(i))) return false;
  }
  return is_laid_out(tensor, meta.dim_order) && (tensor.data() || tensor.numel() == 0) &&
         !(meta.written && tensor.is_constant());
}

}  // namespace

bool is_input(const ValueMeta& meta, const EValue& value) {
  if (value.value_kind() != meta.kind) return false;
  if (meta.kind == ValueKind::Tensor) return is_tensor(meta, value.tensor());
  return meta.symbolic || equals_exported(meta, value);
}

void check_input(size_t index, const ValueMeta& meta, const EValue& value, ErrorList* errors) {
  const std::string input =
      "input " + std::to_string(index) + (meta.name.empty() ? "" : " (" + meta.name + ")");
  if (value.value_kind() != meta.kind) {
    errors->add(Error::InvalidType, "%s: it is %s, expected %s", input.c_str(), value.kind(),
                meta.describe().c_str());
    return;
  }
  if (meta.kind == ValueKind::Tensor) {
    check_tensor(input, meta, value.tensor(), errors);
  } else if (!meta.symbolic && !equals_exported(meta, value)) {
    errors->add(Error::InvalidArgument,
                "%s: it differs from %s, to which the program was specialized at export; "
                "export it with this value, or make it dynamic",
                input.c_str(), meta.describe().c_str());
  }
}

}  // namespace pteron
