// GEMM with a quantized weight, on tensor cores. decisions/2026-11-26-quantized-weights.md
// One row also with weights that are not: decisions/2026-11-27-decoding-steps.md
#include <algorithm>

#include "pteron/backends/aoti/ops/quantized_mma/quantized_mma.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/early_launch.cuh"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/quantized_mma.cuh"

namespace pteron::cuda {
namespace {

// Warps that the GPU has room for, about: 32 for each SM.
constexpr int64_t kMostWarps = 4096;
// Rows of x from which dequantizing the weight to memory is faster.
constexpr int64_t kManyRows = 48;
// Elements of a row from which staging it is faster although it is not normalized.
constexpr int64_t kLongRow = 4096;

template <typename T, QuantizedFormat kFormat, int kTiles, int kStrips, int kScales,
          bool kZeroPoints, bool kStaged = false, int kAhead = kStages<kFormat, kStrips>>
Error few_rows(Operands<T> p, cudaStream_t stream) {
  constexpr auto kKernel =
      few_rows_kernel<T, kFormat, kTiles, kStrips, kScales, kZeroPoints, kStaged, kAhead>;
  constexpr int kColumns = kStrips * kMmaStrip, kMost = kStrips > 2 ? kMaxWarps / 2 : kMaxWarps;
  dim3 grid(static_cast<unsigned>((p.n + kColumns - 1) / kColumns),
            static_cast<unsigned>((p.m + 8 * kTiles - 1) / (8 * kTiles)), kDepth<kStrips>);
  const int64_t blocks = static_cast<int64_t>(grid.x) * grid.y * grid.z;
  const int64_t chunks = (p.k / kMmaChunk + grid.z - 1) / grid.z;
  auto warps = static_cast<int>(
      std::clamp<int64_t>(kMostWarps / blocks, 1, std::min<int64_t>(kMost, chunks)));
  constexpr int kNbytes =
      std::max<int>(kAhead * kStrips * sizeof(Chunk<T, kFormat, kScales, kZeroPoints>),
                    kStrips * kTiles * 4 * kWarp * sizeof(float));  // of a warp
  const int staged = kStaged ? static_cast<int>(p.k * sizeof(T)) * (p.norm ? 2 : 1) : 0;
  if constexpr (kStaged) {  // a full block, for several strips if warps are left
    int all = kMaxWarps;
    while (all > 1 && all * kNbytes + staged > p.most_shared) all /= 2;
    p.warps = std::min(warps, all);
    while (p.warps & (p.warps - 1)) p.warps &= p.warps - 1;
    warps = all;
    grid.x = (grid.x + warps / p.warps - 1) / (warps / p.warps);
  }
  const int nbytes = warps * kNbytes + staged;
  if (nbytes > (48 << 10)) {
    PTERON_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, nbytes),
        "asking for shared memory");
  }
  launch_early(kKernel, grid, warps * kWarp, nbytes, stream, p);
  return launched("launching a GEMM with a quantized weight");
}

template <typename T, QuantizedFormat kFormat, int kScales, bool kZeroPoints>
Error few_rows(const Operands<T>& p, cudaStream_t stream) {
  if (p.norm || (p.m == 1 && p.k >= kLongRow && p.k <= aoti::kMmaMostNormalized)) {
    // Alone on its SM, as it mostly is then, a block has room for more copies on their way.
    if constexpr (kFormat == QuantizedFormat::kInt8) {
      if (!p.norm) return few_rows<T, kFormat, 1, 1, kScales, kZeroPoints, true, 6>(p, stream);
    }
    return few_rows<T, kFormat, 1, 1, kScales, kZeroPoints, true>(p, stream);
  }
  if (p.m <= 8) return few_rows<T, kFormat, 1, 1, kScales, kZeroPoints>(p, stream);
  if (p.major < 9 || p.m <= 16 || p.n <= 64 * kMmaStrip) {
    return few_rows<T, kFormat, 2, 1, kScales, kZeroPoints>(p, stream);
  }
  return p.n < 384 * kMmaStrip ? few_rows<T, kFormat, 4, 2, kScales, kZeroPoints>(p, stream)
                               : few_rows<T, kFormat, 4, 4, kScales, kZeroPoints>(p, stream);
}

// Also with groups of which a chunk has several.
template <typename T, QuantizedFormat kFormat, bool kZeroPoints>
Error few_rows(const Operands<T>& p, cudaStream_t stream) {
  return p.group_shift < kChunkShift ? few_rows<T, kFormat, 2, kZeroPoints>(p, stream)
                                     : few_rows<T, kFormat, 1, kZeroPoints>(p, stream);
}

template <typename T, QuantizedFormat kFormat>
Error many_rows(const Operands<T>& p, ScalarType dtype, int device, cudaStream_t stream) {
  PTERON_ASSIGN_OR_RETURN(const slim::StorageRef weight,
                          allocate_scratch(static_cast<size_t>(p.n * p.k) * sizeof(T), device));
  constexpr int kWarps = 4;
  const int64_t chunks = (p.n + kMmaStrip - 1) / kMmaStrip * (p.k / kMmaChunk);
  const auto blocks = static_cast<unsigned>((chunks + kWarps - 1) / kWarps);
  launch_early(dequantize_kernel<T, kFormat>, blocks, kWarps * kWarp, 0, stream, p,
               static_cast<T*>(weight->data));
  PTERON_RETURN_IF_ERROR(launched("launching the dequantization of a weight"));
  GemmProblem problem;
  problem.dtype = dtype;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  problem.a = {p.x, {p.k, false}};
  problem.b = {weight->data, {p.k, true}};
  problem.out = {p.out, {p.n, false}};
  return gemm(problem, device, stream);
}

template <typename T, QuantizedFormat kFormat>
Error multiply(const Operands<T>& p, bool few, ScalarType dtype, const DeviceScope& scope) {
  const int device = scope.device();
  const cudaStream_t stream = scope.stream();
  if (!few) return many_rows<T, kFormat>(p, dtype, device, stream);
  if constexpr (kFormat != QuantizedFormat::kFloat8) {
    if (p.zero_points) return few_rows<T, kFormat, true>(p, stream);
    if (kFormat == QuantizedFormat::kInt4 || p.k >> p.group_shift) {
      return few_rows<T, kFormat, false>(p, stream);
    }
  }
  if constexpr (kFormat != QuantizedFormat::kInt4) {
    return few_rows<T, kFormat, 0, false>(p, stream);
  }
}

template <typename T>
Error launch(const aoti::QuantizedMmaCall& call, const DeviceScope& scope) {
  int group_shift = 31;  // one group
  if (call.group_size < call.x.size(1)) {
    for (group_shift = 5; (int64_t{1} << group_shift) < call.group_size;) ++group_shift;
  }
  int major = 0, most_shared = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, scope.device()),
      "asking for the compute capability");
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, scope.device()),
      "asking for the shared memory of a block");
  Operands<T> p{call.x.data_as<const T>(),
                static_cast<const uint4*>(call.weight.data()),
                call.scales ? call.scales->data_as<const T>() : nullptr,
                call.zero_points ? call.zero_points->data_as<const float>() : nullptr,
                call.out.data_as<T>(),
                call.out.size(0),
                call.out.size(1) * (call.gated ? 2 : 1),
                call.x.size(1),
                group_shift,
                major,
                most_shared,
                0,
                call.norm ? call.norm->data_as<const T>() : nullptr,
                static_cast<float>(call.epsilon),
                call.residual ? call.residual->data_as<const T>() : nullptr,
                call.gated,
                {},
                {}};
  const auto is_aligned = [](const void* data, size_t nbytes) {
    return reinterpret_cast<uintptr_t>(data) % nbytes == 0;
  };
  if (call.format == QuantizedFormat::kNone) {
    const SlimTensor* const weights[] = {&call.weight, call.further[0], call.further[1]};
    int64_t columns = 0;
    for (int i = 0; i < 3; ++i) {
      if (i) p.begins[i - 1] = static_cast<unsigned>(columns / kMmaStrip);
      if (weights[i] == nullptr) continue;
      p.weights[i] = weights[i]->data_as<const T>();
      columns += weights[i]->size(0);
    }
  }
  const bool is_fused = p.norm || p.residual || p.gated || call.format == QuantizedFormat::kNone;
  slim::StorageRef row;
  if (is_fused && !is_aligned(p.x, sizeof(uint2))) {
    const auto nbytes = static_cast<size_t>(p.k) * sizeof(T);
    PTERON_ASSIGN_OR_RETURN(row, allocate_scratch(nbytes, scope.device()));
    PTERON_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(row->data, p.x, nbytes, cudaMemcpyDeviceToDevice, scope.stream()),
        "copying a row");
    p.x = static_cast<const T*>(row->data);
  }
  // These shapes of mma are of sm_80.
  const bool few = p.m < kManyRows && major >= 8 && is_aligned(p.x, sizeof(uint2));
  const bool all_aligned = is_aligned(p.norm, sizeof(uint4)) &&
                           std::all_of(p.weights, p.weights + 3, [&](const T* weight) {
                             return is_aligned(weight, sizeof(uint4));
                           });
  PTERON_CHECK_OR_RETURN(!is_fused || (few && all_aligned), Error::NotSupported,
                         "%s: a fused GEMM needs compute capability 8.0, and norm and weights at "
                         "multiples of 16 bytes",
                         call.x.describe().c_str());
  const ScalarType dtype = type_of(call.out);
  switch (call.format) {
    case QuantizedFormat::kInt4:
      return multiply<T, QuantizedFormat::kInt4>(p, few, dtype, scope);
    case QuantizedFormat::kInt8:
      return multiply<T, QuantizedFormat::kInt8>(p, few, dtype, scope);
    case QuantizedFormat::kNone:
      return few_rows<T, QuantizedFormat::kNone, 1, 1, 0, false, true>(p, scope.stream());
    default:
      return multiply<T, QuantizedFormat::kFloat8>(p, few, dtype, scope);
  }
}

}  // namespace

Error quantized_mma(const aoti::QuantizedMmaCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  if (call.out.dtype() == DType::Half) return launch<__half>(call, scope);
  return launch<__nv_bfloat16>(call, scope);
}

}  // namespace pteron::cuda
