#include "pteron/backends/example/blas/runtime/plan.h"

#include <algorithm>

#include "pteron/backends/example/blas/schema/plan_generated.h"

namespace pteron::blas {
namespace {

Error invalid(const char* what, size_t index) {
  return make_error(Error::InvalidProgram, "BLAS plan: %s %zu is missing or out of range", what,
                    index);
}

class Parser {
 public:
  explicit Parser(const schema::Plan& table) : table_(table) {}

  Result<Plan> parse() {
    plan_.num_inputs = plan_.num_arguments = table_.num_inputs();
    PTERON_RETURN_IF_ERROR(parse_constants());
    PTERON_RETURN_IF_ERROR(parse_products());
    PTERON_RETURN_IF_ERROR(parse_stores());
    return std::move(plan_);
  }

 private:
  Error parse_constants() {
    if (!table_.constants()) return Error::Ok;
    for (const schema::Constant* constant : *table_.constants()) {
      if (!constant->key() || !constant->sizes())
        return invalid("constant", plan_.constants.size());
      plan_.constants.push_back(
          {constant->key()->str(), {constant->sizes()->begin(), constant->sizes()->end()}});
    }
    return Error::Ok;
  }

  Error parse_products() {
    if (!table_.products()) return Error::Ok;
    for (const schema::Product* product : *table_.products()) {
      PTERON_ASSIGN_OR_RETURN(const Operand left, parse_operand(product->left()));
      PTERON_ASSIGN_OR_RETURN(const Operand right, parse_operand(product->right()));
      std::optional<Operand> bias;
      if (product->bias()) {
        PTERON_ASSIGN_OR_RETURN(bias, parse_operand(product->bias()));
      }
      plan_.products.push_back(
          {left, right, bias, product->right_transposed(), product->alpha(), product->beta()});
    }
    return Error::Ok;
  }

  Result<Operand> parse_operand(const schema::Operand* operand) const {
    const size_t step = plan_.products.size();
    if (!operand) return invalid("an operand of product", step);
    const auto source = static_cast<Source>(operand->source());
    const size_t limits[] = {plan_.num_inputs, step, plan_.constants.size()};
    if (source > Source::Constant || operand->index() >= limits[static_cast<size_t>(source)]) {
      return invalid("an operand of product", step);
    }
    return Operand{source, operand->index()};
  }

  // Every output is written by exactly one store.
  Error parse_stores() {
    const size_t count = table_.stores() ? table_.stores()->size() : 0;
    std::vector<bool> written(plan_.num_inputs + count);
    for (size_t i = 0; i < count; ++i) {
      const schema::Store& store = *table_.stores()->Get(static_cast<uint32_t>(i));
      if (store.product() >= plan_.products.size() || store.argument() >= written.size() ||
          written[store.argument()]) {
        return invalid("store", i);
      }
      written[store.argument()] = true;
      plan_.num_arguments = std::max<size_t>(plan_.num_arguments, store.argument() + 1);
      plan_.stores.push_back({store.product(), store.argument()});
    }
    for (size_t i = plan_.num_inputs; i < plan_.num_arguments; ++i) {
      if (!written[i]) return invalid("the store of argument", i);
    }
    return Error::Ok;
  }

  const schema::Plan& table_;
  Plan plan_{};
};

}  // namespace

Result<Plan> parse_plan(Span<const uint8_t> processed) {
  // The verifier reads sizes as 32-bit numbers.
  if (processed.size() > 0 && processed.size() < FLATBUFFERS_MAX_BUFFER_SIZE) {
    flatbuffers::Verifier verifier(processed.data(), processed.size());
    if (schema::VerifyPlanBuffer(verifier))
      return Parser(*schema::GetPlan(processed.data())).parse();
  }
  return make_error(Error::InvalidProgram,
                    "BLAS plan: %zu bytes that are no plan; lower the model again",
                    processed.size());
}

}  // namespace pteron::blas
