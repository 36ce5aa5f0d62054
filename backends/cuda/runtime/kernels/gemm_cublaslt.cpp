// GEMM through cublasLtMatmul. The algorithm is queried once per problem and cached per thread. If
// allowed, a repeated call with the same addresses is recorded and then launched without the
// library, which saves most of the host time (decisions/2026-11-21-recorded-products.md).
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include "pteron/backends/cuda/runtime/kernels/gemm_types.h"
#include "pteron/backends/cuda/runtime/kernels/recorded_launch.h"

namespace pteron::cuda {
namespace {

// The cache key of an algorithm.
using Key = std::array<int64_t, 16>;

// Further state of a call: addresses of both operands, c, out, bias and workspace; alpha, beta.
using Arguments = std::array<uint64_t, 8>;

struct KeyHash {
  template <typename Words>
  size_t operator()(const Words& words) const {
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    for (const auto word : words) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccdull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// A call made before.
struct Call {
  int times = 0;
  std::unique_ptr<RecordedLaunch> recorded;
};

// The alignment of an address, up to 256, which determines the load width.
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
  std::unordered_map<Arguments, Call, KeyHash> calls;
  bool can_be_recorded = true;  // as far as known
};

using Plans = std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash>;
constexpr size_t kMaxPlans = 4096;
// Cached calls per plan; a network has as many as layers.
constexpr size_t kMaxCalls = 512;

Key make_key(const GemmProblem& p, const ColumnMajorGemm& g, int device) {
  const uint64_t alignments = uint64_t{alignment_of(g.first.data)} |
                              uint64_t{alignment_of(g.second.data)} << 16 |
                              uint64_t{alignment_of(p.out.data)} << 32 |
                              uint64_t{p.beta != 0.0 ? alignment_of(p.c.data) : 0} << 48;
  const int64_t flags = (g.first_op == CUBLAS_OP_T ? 1 : 0) | (g.second_op == CUBLAS_OP_T ? 2 : 0) |
                        (p.beta != 0.0 ? 4 : 0) | (p.bias ? 8 : 0) | (p.allow_tf32 ? 16 : 0) |
                        (p.c.data == p.out.data ? 32 : 0) | (p.scale_each ? 64 : 0) |
                        (p.fast_accumulation ? 128 : 0) | static_cast<int64_t>(p.out_dtype) << 8;
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

// The addresses of the scales. Out is row-major, so the operands are swapped.
cublasStatus_t set_scales(const Cublas& api, cublasLtMatmulDesc_t desc, const GemmProblem& p) {
  const std::pair<cublasLtMatmulDescAttributes_t, const float*> scales[] = {
      {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_scale},
      {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_scale}};
  for (const auto& [key, scale] : scales) {
    const cublasStatus_t status = api.lt_desc_set(desc, key, &scale, sizeof scale);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

class PlanMaker final {
 public:
  PlanMaker(const GemmProblem& problem, const ColumnMajorGemm& gemm, BlasContext& blas)
      : problem_(problem),
        gemm_(gemm),
        blas_(blas),
        api_(blas.api()),
        types_(gemm_types(problem)) {}

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
    if (problem_.a_scale) PTERON_RETURN_IF_ERROR(describe_scales(plan->desc));
    const GemmMatrix& c = problem_.beta != 0.0 ? problem_.c : problem_.out;
    const auto [data, out, scale, compute] = types_;
    const int64_t rows = gemm_.rows, cols = gemm_.cols, k = problem_.k;
    PTERON_RETURN_IF_ERROR(layout(gemm_.first, data, gemm_.first_op, rows, k, &plan->a));
    PTERON_RETURN_IF_ERROR(layout(gemm_.second, data, gemm_.second_op, k, cols, &plan->b));
    PTERON_RETURN_IF_ERROR(layout(c, out, CUBLAS_OP_N, rows, cols, &plan->c));
    PTERON_RETURN_IF_ERROR(layout(problem_.out, out, CUBLAS_OP_N, rows, cols, &plan->d));
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

  Error describe_scales(cublasLtMatmulDesc_t desc) const {
    const int8_t fast = problem_.fast_accumulation ? 1 : 0;
    PTERON_RETURN_IF_ERROR(set(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast));
    PTERON_RETURN_IF_ERROR(check(set_scales(api_, desc, problem_)));
    if (!problem_.scale_each) return Error::Ok;
    for (auto key : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) {
      const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      Error error = set(desc, key, mode);
      if (!error.ok()) return make_error(Error::NotSupported, "%s", error.message().c_str());
    }
    return Error::Ok;
  }

  Error layout(const GemmMatrix& matrix, cudaDataType_t type, cublasOperation_t op, int64_t rows,
               int64_t cols, cublasLtMatrixLayout_t* out) const {
    if (op == CUBLAS_OP_T) std::swap(rows, cols);
    PTERON_RETURN_IF_ERROR(
        check(api_.lt_layout_create(out, type, static_cast<uint64_t>(rows),
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

// One call of a plan; increments `recordings` if it records.
class Launcher final {
 public:
  Launcher(const GemmProblem& problem, const ColumnMajorGemm& gemm, BlasContext& blas, Plan& plan,
           size_t& recordings)
      : problem_(problem),
        gemm_(gemm),
        blas_(blas),
        plan_(plan),
        recordings_(recordings),
        scale_type_(gemm_types(problem).scale) {}

  Error run(cudaStream_t stream) {
    if (!problem_.record || problem_.a_scale) return ask(stream);
    const Arguments arguments = {address(gemm_.first.data),
                                 address(gemm_.second.data),
                                 address(problem_.beta != 0.0 ? problem_.c.data : nullptr),
                                 address(problem_.out.data),
                                 address(problem_.bias),
                                 address(blas_.workspace()),
                                 bits(problem_.alpha),
                                 bits(problem_.beta)};
    auto known = plan_.calls.find(arguments);
    if (__builtin_expect(known != plan_.calls.end() && known->second.recorded, 1)) {
      ++gemm_counts().recorded;
      return known->second.recorded->launch(stream);
    }
    PTERON_RETURN_IF_ERROR(ask(stream));
    if (plan_.can_be_recorded) remember(arguments, stream);
    return Error::Ok;
  }

 private:
  Error ask(cudaStream_t stream) {
    if (problem_.bias != nullptr) {
      PTERON_RETURN_IF_ERROR(check(blas_.api().lt_desc_set(
          plan_.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &problem_.bias, sizeof problem_.bias)));
    }
    if (problem_.a_scale != nullptr) {
      PTERON_RETURN_IF_ERROR(check(set_scales(blas_.api(), plan_.desc, problem_)));
    }
    ++gemm_counts().asked;
    return check(call(stream));
  }

  static uint64_t address(const void* data) { return reinterpret_cast<uintptr_t>(data); }
  static uint64_t bits(double value) {
    uint64_t result = 0;
    std::memcpy(&result, &value, sizeof result);
    return result;
  }

  Error check(cublasStatus_t status) const {
    if (__builtin_expect(status == CUBLAS_STATUS_SUCCESS, 1)) return Error::Ok;
    return blas_error(blas_.api(), status, ("cublasLtMatmul of " + describe(problem_)).c_str());
  }

  cublasStatus_t call(cudaStream_t stream) const {
    const Scale alpha(problem_.alpha, scale_type_);
    const Scale beta(problem_.beta, scale_type_);
    void* out = const_cast<void*>(problem_.out.data);
    const void* c = problem_.beta != 0.0 ? problem_.c.data : out;
    return blas_.api().lt_matmul(blas_.lt_handle(), plan_.desc, alpha.get(), gemm_.first.data,
                                 plan_.a, gemm_.second.data, plan_.b, beta.get(), c, plan_.c, out,
                                 plan_.d, &plan_.algorithm, blas_.workspace(),
                                 blas_.workspace_nbytes(), stream);
  }

  // A call is recorded the second time, when its kernels are loaded.
  void remember(const Arguments& arguments, cudaStream_t stream) {
    if (plan_.calls.size() >= kMaxCalls) plan_.calls.clear();
    Call& seen = plan_.calls[arguments];
    if (++seen.times < 2) return;
    const cudaStream_t side = blas_.recording_stream(stream);
    if (side == nullptr) return;
    seen.recorded = RecordedLaunch::record(
        side, [this](cudaStream_t s) { return call(s) == CUBLAS_STATUS_SUCCESS; });
    plan_.can_be_recorded = seen.recorded != nullptr;
    ++recordings_;
  }

  const GemmProblem& problem_;
  const ColumnMajorGemm& gemm_;
  BlasContext& blas_;
  Plan& plan_;
  size_t& recordings_;
  const cudaDataType_t scale_type_;
};

}  // namespace

GemmCounts& gemm_counts() {
  thread_local GemmCounts counts;
  return counts;
}

Error gemm_cublaslt(const GemmProblem& problem, BlasContext& blas, cudaStream_t stream) {
  // cublasLt rejects k = 0, but a bias or a separate c needs cublasLt. Adding 0 * (any finite
  // element) would be wrong for infinities, so the caller must not come here.
  PTERON_CHECK_OR_RETURN(problem.k > 0, Error::InvalidArgument,
                         "cublasLtMatmul: %s has no products to sum; copy c and use cublasGemmEx",
                         describe(problem).c_str());
  thread_local Plans plans;
  thread_local size_t recordings = 0;
  if (__builtin_expect(recordings >= kMaxRecordedProducts, 0)) {
    for (auto& [known, plan] : plans) plan->calls.clear();
    recordings = 0;
  }
  const ColumnMajorGemm g(problem);
  const Key key = make_key(problem, g, blas.device());
  auto found = plans.find(key);
  if (__builtin_expect(found == plans.end(), 0)) {
    PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, PlanMaker(problem, g, blas).make());
    if (plans.size() >= kMaxPlans) plans.clear();
    found = plans.emplace(key, std::move(plan)).first;
  }
  return Launcher(problem, g, blas, *found->second, recordings).run(stream);
}

}  // namespace pteron::cuda
