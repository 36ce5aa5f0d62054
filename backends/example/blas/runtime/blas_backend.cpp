// Backend "BlasBackend": matmuls with OpenBLAS.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "cblas.h"
#include "pteron/backends/example/blas/schema/plan_generated.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::blas {
namespace {

// An argument of the call, or a weight, which is read from the mapped file.
struct Operand {
  size_t argument;
  std::optional<Tensor> weight;
};

bool is_row_major(const Tensor& tensor) {
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.dim_order()[i] != i) return false;
  }
  return true;
}

class BlasDelegate final : public Delegate {
 public:
  // Finds the weights in `named_data`, which keeps them.
  Error load(const schema::Plan& plan, const NamedDataMap& named_data) {
    num_inputs_ = num_arguments_ = plan.num_inputs();
    stores_.assign(plan.stores()->begin(), plan.stores()->end());
    for (const size_t store : stores_) num_arguments_ += store >= num_inputs_ ? 1 : 0;
    for (const size_t store : stores_) {
      PTERON_CHECK_OR_RETURN(store < num_arguments_, Error::InvalidProgram,
                             "a BLAS plan of %zu arguments writes argument %zu", num_arguments_,
                             store);
    }
    PTERON_CHECK_OR_RETURN(!stores_.empty(), Error::InvalidProgram, "a BLAS plan writes nothing");
    // Outputs first: the matmul writes directly to one if possible.
    std::sort(stores_.rbegin(), stores_.rend());
    right_transposed_ = plan.right_transposed();
    PTERON_ASSIGN_OR_RETURN(left_, load_operand(*plan.left(), named_data));
    PTERON_ASSIGN_OR_RETURN(right_, load_operand(*plan.right(), named_data));
    if (plan.bias()) {
      PTERON_ASSIGN_OR_RETURN(bias_, load_operand(*plan.bias(), named_data));
    }
    return Error::Ok;
  }

  Error execute(BackendExecutionContext&, Span<EValue* const> arguments) override {
    PTERON_RETURN_IF_ERROR(check(arguments));
    const Tensor& left = find(left_, arguments);
    const Tensor& right = find(right_, arguments);
    const Tensor* const bias = bias_ ? &find(*bias_, arguments) : nullptr;
    PTERON_ASSIGN_OR_RETURN(Tensor product, shape_of(left, right, bias));

    // A mutated input may be an operand too, so it is written last.
    Tensor& first = arguments[stores_[0]]->tensor();
    if (stores_[0] >= num_inputs_) {
      PTERON_RETURN_IF_ERROR(first.resize(product.sizes()));
      product.set_data(first.data(), first.capacity_nbytes());
    } else {
      PTERON_ASSIGN_OR_RETURN(float* const data, reserve(static_cast<size_t>(product.numel())));
      product.set_data(data, product.nbytes());
    }
    if (product.numel() > 0) multiply(left, right, bias, product);
    for (const size_t store : stores_) {
      Tensor& tensor = arguments[store]->tensor();
      PTERON_RETURN_IF_ERROR(tensor.resize(product.sizes()));
      if (tensor.data() != product.data() && product.numel() > 0) {
        std::memcpy(tensor.data(), product.data(), product.nbytes());
      }
    }
    return Error::Ok;
  }

 private:
  Result<Operand> load_operand(const schema::Operand& operand, const NamedDataMap& named_data) {
    const schema::Weight* const weight = operand.weight();
    if (!weight) {
      PTERON_CHECK_OR_RETURN(operand.argument() < num_inputs_, Error::InvalidProgram,
                             "a BLAS plan of %zu inputs reads argument %u", num_inputs_,
                             operand.argument());
      return Operand{operand.argument(), std::nullopt};
    }
    const std::vector<int64_t> sizes(weight->sizes()->begin(), weight->sizes()->end());
    PTERON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::make(ScalarType::Float, sizes, nullptr));
    auto data = named_data.get_data(weight->key()->string_view());
    if (!data.ok()) return data.take_error().with_context("a weight of BlasBackend");
    PTERON_CHECK_OR_RETURN(data->size() == tensor.nbytes() &&
                               reinterpret_cast<uintptr_t>(data->data()) % alignof(float) == 0,
                           Error::InvalidProgram,
                           "weight %s has %zu bytes at %p; expected %zu, aligned to %zu",
                           weight->key()->c_str(), data->size(),
                           static_cast<const void*>(data->data()), tensor.nbytes(), alignof(float));
    tensor.set_constant_data(data->data(), data->size());
    return Operand{0, std::move(tensor)};
  }

  Error check(Span<EValue* const> arguments) const {
    PTERON_CHECK_OR_RETURN(arguments.size() == num_arguments_, Error::InvalidArgument,
                           "BlasBackend got %zu arguments; expected %zu", arguments.size(),
                           num_arguments_);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const EValue& value = *arguments[i];
      PTERON_CHECK_OR_RETURN(value.is_tensor() && value.tensor().dtype() == ScalarType::Float &&
                                 is_row_major(value.tensor()),
                             Error::InvalidType,
                             "argument %zu of BlasBackend is %s; expected row-major float32", i,
                             value.is_tensor() ? value.tensor().describe().c_str() : value.kind());
    }
    for (const size_t store : stores_) {
      PTERON_CHECK_OR_RETURN(!arguments[store]->tensor().is_constant(), Error::InvalidArgument,
                             "argument %zu is read-only, and is written", store);
    }
    return Error::Ok;
  }

  // The product, without memory.
  Result<Tensor> shape_of(const Tensor& left, const Tensor& right, const Tensor* bias) const {
    const bool fits = left.dim() >= 1 && right.dim() == 2 &&
                      left.size(left.dim() - 1) == right.size(right_transposed_ ? 1 : 0);
    PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "%s and %s%s cannot be multiplied",
                           left.describe().c_str(), right.describe().c_str(),
                           right_transposed_ ? ", transposed," : "");
    const int64_t columns = right.size(right_transposed_ ? 0 : 1);
    PTERON_CHECK_OR_RETURN(!bias || (bias->dim() == 1 && bias->size(0) == columns),
                           Error::InvalidArgument, "the bias is %s; expected a row of %lld",
                           bias->describe().c_str(), static_cast<long long>(columns));
    std::array<int64_t, kMaxTensorDims> sizes;
    std::copy(left.sizes().begin(), left.sizes().end(), sizes.begin());
    sizes[left.dim() - 1] = columns;
    PTERON_ASSIGN_OR_RETURN(Tensor product,
                            Tensor::make(ScalarType::Float, {sizes.data(), left.dim()}, nullptr));
    PTERON_CHECK_OR_RETURN(
        std::max({product.numel() / std::max<int64_t>(columns, 1), right.size(0), right.size(1)}) <=
            INT32_MAX,
        Error::NotSupported, "%s by %s has more rows or columns than this BLAS can count",
        left.describe().c_str(), right.describe().c_str());
    return product;
  }

  static const Tensor& find(const Operand& operand, Span<EValue* const> arguments) {
    return operand.weight ? *operand.weight : arguments[operand.argument]->tensor();
  }

  void multiply(const Tensor& left, const Tensor& right, const Tensor* bias,
                const Tensor& product) const {
    const int64_t inner = left.size(left.dim() - 1);
    const int64_t columns = product.size(product.dim() - 1);
    const int64_t rows = product.numel() / columns;
    auto* const out = product.data_as<float>();
    for (int64_t row = 0; bias && row < rows; ++row) {
      std::memcpy(out + row * columns, bias->data(), bias->nbytes());
    }
    // BLAS requires a stride of at least 1 even for a matrix without columns.
    const auto stride = [](int64_t size) {
      return static_cast<blasint>(std::max<int64_t>(size, 1));
    };
    scipy_cblas_sgemm(CblasRowMajor, CblasNoTrans, right_transposed_ ? CblasTrans : CblasNoTrans,
                      static_cast<blasint>(rows), static_cast<blasint>(columns),
                      static_cast<blasint>(inner), 1, left.data_as<float>(), stride(inner),
                      right.data_as<float>(), stride(right.size(1)), bias ? 1 : 0, out,
                      stride(columns));
  }

  Result<float*> reserve(size_t count) {
    if (count > scratch_size_) {
      scratch_.reset(new (std::nothrow) float[count]);
      scratch_size_ = scratch_ ? count : 0;
      PTERON_CHECK_OR_RETURN(scratch_, Error::MemoryAllocationFailed, "no memory for %zu floats",
                             count);
    }
    return scratch_.get();
  }

  size_t num_inputs_ = 0, num_arguments_ = 0;
  Operand left_, right_;
  std::optional<Operand> bias_;
  bool right_transposed_ = false;
  std::vector<size_t> stores_;
  std::unique_ptr<float[]> scratch_;  // cached, so that only the first call allocates
  size_t scratch_size_ = 0;
};

class BlasBackend final : public BackendInterface {
 public:
  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec>) override {
    PTERON_CHECK_OR_RETURN(context.options.empty(), Error::InvalidArgument,
                           "BlasBackend has no option \"%s\"; it has none",
                           context.options[0].key.c_str());
    // The verifier reads sizes as 32-bit numbers.
    const bool readable = processed.size() > 0 && processed.size() < FLATBUFFERS_MAX_BUFFER_SIZE;
    flatbuffers::Verifier verifier(processed.data(), readable ? processed.size() : 0);
    PTERON_CHECK_OR_RETURN(readable && schema::VerifyPlanBuffer(verifier), Error::InvalidProgram,
                           "BLAS plan: %zu bytes that are no plan; lower the model again",
                           processed.size());
    auto delegate = std::make_unique<BlasDelegate>();
    PTERON_RETURN_IF_ERROR(delegate->load(*schema::GetPlan(processed.data()), *context.named_data));
    return std::unique_ptr<Delegate>(std::move(delegate));
  }
};

[[maybe_unused]] const bool registered = [] {
  const Error error = register_backend("BlasBackend", std::make_unique<BlasBackend>());
  if (!error.ok()) PTERON_LOG(Warning, "BlasBackend: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::blas
