// Products through cublasLtMatmul. The library's choice of algorithm is asked for once per kind of
// problem and remembered by the thread, so that a repeated call is one lookup and one launch.
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "backends/cuda/runtime/kernels/gemm_types.h"

namespace pteron::cuda {
namespace {

// Everything that the choice of an algorithm depends on.
using Key = std::array<int64_t, 16>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    for (const int64_t word : key) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccdull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// The largest power of two up to 256 that divides an address, which decides the width of loads.
uint32_t alignment_of(const void* data) {
  const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data) | 256);
  return low & (~low + 1);
}

struct Plan {
  explicit Plan(const Cublas* api) : api(api) {}
  ~Plan() {
    if (desc) api->lt_desc_destroy(desc);
    for (cublasLtMatrixLayout_t layout : {a, b, c, d}) {
      if (layout) api->lt_layout_destroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Cublas* api;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

using Plans = std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash>;
constexpr size_t kMaxPlans = 4096;

Key make_key(const GemmProblem& p, const ColumnMajorGemm& g, int device) {
  const uint64_t alignments = uint64_t{alignment_of(g.first.data)} |
                              uint64_t{alignment_of(g.second.data)} << 16 |
                              uint64_t{alignment_of(p.out.data)} << 32 |
                              uint64_t{p.beta != 0.0 ? alignment_of(p.c.data) : 0} << 48;
  const int64_t flags = (g.first_op == CUBLAS_OP_T ? 1 : 0) | (g.second_op == CUBLAS_OP_T ? 2 : 0) |
                        (p.beta != 0.0 ? 4 : 0) | (p.bias ? 8 : 0) | (p.allow_tf32 ? 16 : 0) |
                        (p.c.data == p.out.data ? 32 : 0);
  return {static_cast<int64_t>(p.dtype),
          device,
          g.rows,
          g.cols,
          p.k,
          g.first.layout.leading_dimension,
          g.second.layout.leading_dimension,
          p.beta != 0.0 ? p.c.layout.leading_dimension : 0,
          p.out.layout.leading_dimension,
          p.batch,
          g.first.batch_stride,
          g.second.batch_stride,
          p.beta != 0.0 ? p.c.batch_stride : 0,
          p.out.batch_stride,
          static_cast<int64_t>(alignments),
          flags};
}

class PlanMaker final {
 public:
  PlanMaker(const GemmProblem& problem, const ColumnMajorGemm& gemm, BlasContext& blas)
      : problem_(problem),
        gemm_(gemm),
        blas_(blas),
        api_(blas.api()),
        types_(gemm_types(problem.dtype, problem.allow_tf32)) {}

  Result<std::unique_ptr<Plan>> make() {
    auto plan = std::make_unique<Plan>(&api_);
    PTERON_RETURN_IF_ERROR(check(api_.lt_desc_create(&plan->desc, types_.compute, types_.scale)));
    PTERON_RETURN_IF_ERROR(set(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, gemm_.first_op));
    PTERON_RETURN_IF_ERROR(set(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, gemm_.second_op));
    if (problem_.bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      PTERON_RETURN_IF_ERROR(set(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
      PTERON_RETURN_IF_ERROR(set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, problem_.bias));
    }
    const GemmMatrix& c = problem_.beta != 0.0 ? problem_.c : problem_.out;
    PTERON_RETURN_IF_ERROR(layout(gemm_.first, gemm_.first_op, gemm_.rows, problem_.k, &plan->a));
    PTERON_RETURN_IF_ERROR(layout(gemm_.second, gemm_.second_op, problem_.k, gemm_.cols, &plan->b));
    PTERON_RETURN_IF_ERROR(layout(c, CUBLAS_OP_N, gemm_.rows, gemm_.cols, &plan->c));
    PTERON_RETURN_IF_ERROR(layout(problem_.out, CUBLAS_OP_N, gemm_.rows, gemm_.cols, &plan->d));
    PTERON_RETURN_IF_ERROR(choose_algorithm(c, *plan));
    return plan;
  }

 private:
  Error check(cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return Error::Ok;
    return blas_error(api_, status, ("planning cublasLtMatmul of " + describe(problem_)).c_str());
  }

  template <typename Value>
  Error set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t key,
            const Value& value) const {
    return check(api_.lt_desc_set(desc, key, &value, sizeof value));
  }

  Error layout(const GemmMatrix& matrix, cublasOperation_t op, int64_t rows, int64_t cols,
               cublasLtMatrixLayout_t* out) const {
    if (op == CUBLAS_OP_T) std::swap(rows, cols);
    PTERON_RETURN_IF_ERROR(
        check(api_.lt_layout_create(out, types_.data, static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(cols), matrix.layout.leading_dimension)));
    if (problem_.batch == 1) return Error::Ok;
    const auto batch = static_cast<int32_t>(problem_.batch);
    PTERON_RETURN_IF_ERROR(
        check(api_.lt_layout_set(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch)));
    return check(api_.lt_layout_set(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                    &matrix.batch_stride, sizeof matrix.batch_stride));
  }

  Error choose_algorithm(const GemmMatrix& c, Plan& plan) const {
    cublasLtMatmulPreference_t raw = nullptr;
    PTERON_RETURN_IF_ERROR(check(api_.lt_preference_create(&raw)));
    const auto destroy = [this](cublasLtMatmulPreference_t p) { api_.lt_preference_destroy(p); };
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(destroy)>
        preference(raw, destroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t key, auto value) {
      return check(api_.lt_preference_set(raw, key, &value, sizeof value));
    };
    const uint64_t workspace = blas_.workspace_nbytes();
    PTERON_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
    PTERON_RETURN_IF_ERROR(
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(gemm_.first.data)));
    PTERON_RETURN_IF_ERROR(
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(gemm_.second.data)));
    PTERON_RETURN_IF_ERROR(
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(c.data)));
    PTERON_RETURN_IF_ERROR(
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(problem_.out.data)));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    PTERON_RETURN_IF_ERROR(check(api_.lt_heuristic(blas_.lt_handle(), plan.desc, plan.a, plan.b,
                                                   plan.c, plan.d, raw, 1, &found, &count)));
    PTERON_CHECK_OR_RETURN(count > 0, Error::NotSupported, "cublasLt has no algorithm for %s",
                           describe(problem_).c_str());
    plan.algorithm = found.algo;
    return Error::Ok;
  }

  const GemmProblem& problem_;
  const ColumnMajorGemm& gemm_;
  BlasContext& blas_;
  const Cublas& api_;
  const GemmTypes types_;
};

}  // namespace

Error gemm_cublaslt(const GemmProblem& problem, BlasContext& blas, cudaStream_t stream) {
  // An empty sum: cublasLt refuses k = 0, and a bias or another c needs cublasLt. Adding
  // 0 * (any finite element) would be wrong for infinities, so the caller must not come here.
  PTERON_CHECK_OR_RETURN(problem.k > 0, Error::InvalidArgument,
                         "cublasLtMatmul: %s has no products to sum; copy c and use cublasGemmEx",
                         describe(problem).c_str());
  thread_local Plans plans;
  const ColumnMajorGemm g(problem);
  const Key key = make_key(problem, g, blas.device());
  auto found = plans.find(key);
  if (__builtin_expect(found == plans.end(), 0)) {
    PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, PlanMaker(problem, g, blas).make());
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, std::move(plan)).first;
  }
  Plan& plan = *found->second;
  const Cublas& api = blas.api();
  if (problem.bias != nullptr) {
    const cublasStatus_t set = api.lt_desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &problem.bias, sizeof problem.bias);
    if (set != CUBLAS_STATUS_SUCCESS) return blas_error(api, set, "setting the bias of a product");
  }
  const GemmTypes types = gemm_types(problem.dtype, problem.allow_tf32);
  const Scale alpha(problem.alpha, types.scale);
  const Scale beta(problem.beta, types.scale);
  void* out = const_cast<void*>(problem.out.data);
  const void* c = problem.beta != 0.0 ? problem.c.data : out;
  const cublasStatus_t status =
      api.lt_matmul(blas.lt_handle(), plan.desc, alpha.get(), g.first.data, plan.a, g.second.data,
                    plan.b, beta.get(), c, plan.c, out, plan.d, &plan.algorithm, blas.workspace(),
                    blas.workspace_nbytes(), stream);
  if (__builtin_expect(status != CUBLAS_STATUS_SUCCESS, 0)) {
    return blas_error(api, status, ("cublasLtMatmul of " + describe(problem)).c_str());
  }
  return Error::Ok;
}

}  // namespace pteron::cuda
