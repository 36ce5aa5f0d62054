#include "pteron/backends/example/blas/runtime/blas_delegate.h"

#include <utility>

#include "pteron/backends/example/blas/runtime/products.h"

namespace pteron::blas {
namespace {

// Weights are read where they lie in the file, so they must lie where floats may.
bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
}

}  // namespace

Result<std::unique_ptr<Delegate>> BlasDelegate::load(Plan plan, const NamedDataMap& named_data) {
  std::unique_ptr<BlasDelegate> delegate(new BlasDelegate(std::move(plan)));
  for (const Constant& constant : delegate->plan_.constants) {
    PTERON_RETURN_IF_ERROR(delegate->add_constant(constant, named_data));
  }
  return std::unique_ptr<Delegate>(std::move(delegate));
}

BlasDelegate::BlasDelegate(Plan plan)
    : plan_(std::move(plan)),
      inputs_(plan_.num_inputs),
      products_(plan_.products.size()),
      input_copies_(plan_.num_inputs),
      product_buffers_(plan_.products.size()),
      direct_output_(plan_.products.size()) {
  for (const Store& store : plan_.stores) {
    if (store.argument >= plan_.num_inputs) direct_output_[store.product] = store.argument;
  }
}

Error BlasDelegate::add_constant(const Constant& constant, const NamedDataMap& named_data) {
  auto data = named_data.get_data(constant.key);
  if (!data.ok()) return data.take_error().with_context("a weight of BlasBackend");
  PTERON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::make(ScalarType::Float, constant.sizes, nullptr));
  PTERON_CHECK_OR_RETURN(
      data->size() == tensor.nbytes() && is_aligned(data->data()), Error::InvalidProgram,
      "weight %s has %zu bytes at %p; expected %zu, aligned to %zu", constant.key.c_str(),
      data->size(), static_cast<const void*>(data->data()), tensor.nbytes(), alignof(float));
  tensor.set_constant_data(data->data());
  constants_.push_back(std::move(tensor));
  return Error::Ok;
}

Error BlasDelegate::execute(BackendExecutionContext&, Span<EValue* const> arguments) {
  PTERON_RETURN_IF_ERROR(bind(arguments));
  for (size_t step = 0; step < products_.size(); ++step) {
    PTERON_RETURN_IF_ERROR(run(step, arguments));
  }
  // Last, since an input that changes may be an operand too.
  for (const Store& item : plan_.stores) PTERON_RETURN_IF_ERROR(store(item, arguments));
  return Error::Ok;
}

Error BlasDelegate::bind(Span<EValue* const> arguments) {
  PTERON_CHECK_OR_RETURN(arguments.size() == plan_.num_arguments, Error::InvalidArgument,
                         "BlasBackend got %zu arguments; expected %zu", arguments.size(),
                         plan_.num_arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const EValue& value = *arguments[i];
    PTERON_CHECK_OR_RETURN(value.is_tensor() && value.tensor().dtype() == ScalarType::Float,
                           Error::InvalidType,
                           "argument %zu of BlasBackend is %s; expected float32", i,
                           value.is_tensor() ? value.tensor().describe().c_str() : value.kind());
  }
  for (size_t i = 0; i < plan_.num_inputs; ++i) {
    PTERON_ASSIGN_OR_RETURN(inputs_[i], contiguous(arguments[i]->tensor(), input_copies_[i]));
  }
  return Error::Ok;
}

Error BlasDelegate::run(size_t step, Span<EValue* const> arguments) {
  const Product& product = plan_.products[step];
  const Tensor& left = find(product.left);
  const Tensor& right = find(product.right);
  const Tensor* const bias = product.bias ? &find(*product.bias) : nullptr;
  PTERON_ASSIGN_OR_RETURN(const Sizes sizes, product_sizes(left, right, product.right_transposed));
  if (const size_t output = direct_output_[step]; output != 0) {
    Tensor& tensor = arguments[output]->tensor();
    PTERON_RETURN_IF_ERROR(tensor.resize(sizes));
    if (is_contiguous(tensor)) products_[step] = tensor;
  }
  if (direct_output_[step] == 0 || !is_contiguous(arguments[direct_output_[step]]->tensor())) {
    PTERON_ASSIGN_OR_RETURN(products_[step], make_tensor(sizes, product_buffers_[step]));
  }
  return multiply({left, right, product.right_transposed, bias, product.alpha, product.beta},
                  *products_[step]);
}

Error BlasDelegate::store(const Store& store, Span<EValue* const> arguments) const {
  const Tensor& product = *products_[store.product];
  Tensor& target = arguments[store.argument]->tensor();
  if (target.data() == product.data()) return Error::Ok;
  PTERON_CHECK_OR_RETURN(!target.is_constant(), Error::InvalidArgument,
                         "argument %zu is a constant of the program, and is written",
                         store.argument);
  PTERON_RETURN_IF_ERROR(target.resize(product.sizes()));
  copy_elements(product, target);
  return Error::Ok;
}

const Tensor& BlasDelegate::find(const Operand& operand) const {
  switch (operand.source) {
    case Source::Argument:
      return *inputs_[operand.index];
    case Source::Product:
      return *products_[operand.index];
    case Source::Constant:
      break;
  }
  return constants_[operand.index];
}

}  // namespace pteron::blas
