"""C++ that stands before generated sources: what they include and call."""

#: The model uses the 8-bit types, but its header lacks them in torch 2.11.
MODEL_HEADER = """#include <torch/csrc/inductor/aoti_include/{device}.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <initializer_list>

// One call in a model's constructor instead of eleven assignments, for each of its constants.
template <typename Info>
[[gnu::noinline]] static void pteron_constant(Info& info, const char* name, int32_t dtype,
                                              int32_t device_type, int64_t offset, size_t data_size,
                                              bool from_folded, int32_t type,
                                              std::initializer_list<int64_t> shape,
                                              std::initializer_list<int64_t> stride, int32_t layout,
                                              const char* original_fqn) {{
  info.name = name;
  info.dtype = dtype;
  info.device_type = device_type;
  info.offset = offset;
  info.data_size = data_size;
  info.from_folded = from_folded;
  info.type = type;
  info.shape = shape;
  info.stride = stride;
  info.layout = layout;
  info.original_fqn = original_fqn;
}}
"""
#: Where an environment variable is set, torch 2.14 copies constants through pinned memory, on its
#: own stream, with CUDA functions that programs otherwise do not import. These macros make that
#: fail, so that its fallback copies constants as other releases do.
CUDA_HEADER = """#include <cuda_runtime_api.h>
#define cudaEventCreateWithFlags(...) cudaErrorNotSupported
#define cudaMemcpyAsync(...) cudaErrorNotSupported
#define cudaStreamCreateWithFlags(...) cudaErrorNotSupported
#define cudaStreamDestroy(...) cudaSuccess
static inline cudaError_t pteron_synchronize(cudaStream_t stream) {
  cudaEvent_t event;
  cudaError_t error = cudaEventCreate(&event);
  if (error != cudaSuccess) return error;
  error = cudaEventRecord(event, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(event);
  const cudaError_t destroyed = cudaEventDestroy(event);
  return error == cudaSuccess ? destroyed : error;
}
#define cudaStreamSynchronize(stream) pteron_synchronize(stream)
"""
#: The C entry points of a model, which `Container::create` of the runtime looks up: one model, run
#: by one thread at a time. Torch's, of a container of several, take as long to compile as a model.
ENTRY_POINTS = """
#include <cstdio>
using namespace torch::aot_inductor;

struct AOTInductorModelContainerOpaque {
  std::shared_ptr<ConstantMap> constants = std::make_shared<ConstantMap>();
  AOTInductorModel model;

  AOTInductorModelContainerOpaque(const char* device, const char* folder)
      : model(constants, std::make_shared<std::vector<ConstantHandle>>(), device,
              folder ? std::optional<std::string>(folder) : std::nullopt) {
    model.update_constants_map(constants);
  }
};

// Characters, since a destructor would have to be registered for each thread.
static thread_local char pteron_error[2048];

template <typename Function>
static AOTIRuntimeError pteron_try(Function function) {
  try {
    function();
    return AOTI_RUNTIME_SUCCESS;
  } catch (const std::exception& error) {
    std::snprintf(pteron_error, sizeof(pteron_error), "%s", error.what());
  } catch (...) {
    std::snprintf(pteron_error, sizeof(pteron_error), "unknown exception");
  }
  return AOTI_RUNTIME_FAILURE;
}

#define PTERON_ENTRY(name) \
  extern "C" __attribute__((visibility("default"))) AOTIRuntimeError AOTInductor##name
using PteronHandle = AOTInductorModelContainerHandle;

PTERON_ENTRY(GetLastError)(const char** message) {
  *message = pteron_error;
  return AOTI_RUNTIME_SUCCESS;
}
PTERON_ENTRY(ModelContainerCreateWithDevice)
(PteronHandle* handle, size_t, const char* device, const char* folder) {
  return pteron_try([&] { *handle = new AOTInductorModelContainerOpaque(device, folder); });
}
PTERON_ENTRY(ModelContainerDelete)(PteronHandle handle) {
  return pteron_try([&] { delete handle; });
}
PTERON_ENTRY(ModelContainerGetNumInputs)(PteronHandle handle, size_t* count) {
  return pteron_try([&] { *count = handle->model.num_inputs(); });
}
PTERON_ENTRY(ModelContainerGetNumOutputs)(PteronHandle handle, size_t* count) {
  return pteron_try([&] { *count = handle->model.num_outputs(); });
}
PTERON_ENTRY(ModelContainerGetNumConstants)(PteronHandle handle, size_t* count) {
  return pteron_try([&] { *count = handle->model.num_constants(); });
}
PTERON_ENTRY(ModelContainerGetConstantName)(PteronHandle handle, size_t index, const char** name) {
  return pteron_try([&] { *name = handle->model.constant_name(index); });
}
PTERON_ENTRY(ModelContainerGetConstantFromFolded)(PteronHandle handle, size_t index, bool* folded) {
  return pteron_try([&] { *folded = handle->model.constant_from_folded(index); });
}
PTERON_ENTRY(ModelContainerGetConstantDataSize)(PteronHandle handle, size_t index, size_t* nbytes) {
  return pteron_try([&] { *nbytes = handle->model.constant_data_size(index); });
}
PTERON_ENTRY(ModelContainerUpdateUserManagedConstantBufferPairs)
(PteronHandle handle, const AOTInductorConstantMapEntry* pairs, size_t count, bool, bool) {
  return pteron_try([&] {
    for (size_t i = 0; i < count; ++i) {
      MaybeOwningAtenTensorHandle constant(pairs[i].handle);
      constant.release();  // keeps the caller's handle, as long as the caller has it
      handle->constants->insert_or_assign(pairs[i].name, std::move(constant));
    }
    handle->model.update_constants_array_from_map();
  });
}
PTERON_ENTRY(ModelUpdateConstantsFromBlob)(PteronHandle handle, const uint8_t* blob) {
  return pteron_try([&] { handle->model.update_constants_from_blob(blob); });
}
PTERON_ENTRY(ModelContainerRunSingleThreaded)
(PteronHandle handle, AtenTensorHandle* inputs, size_t, AtenTensorHandle* outputs, size_t,
 AOTInductorStreamHandle stream, AOTIProxyExecutorHandle executor) {
  return pteron_try([&] {
    handle->model.run_single_threaded(inputs, outputs, reinterpret_cast<DeviceStreamType>(stream),
                                      executor);
  });
}
"""
#: Headers of kernels, and functions that generated code calls.
KERNEL_HEADER = """#include <omp.h>
#include <torch/csrc/inductor/cpp_prefix.h>
#include <c10/util/Unroll.h>

// See backends/cpu/runtime/shims/micro_gemm.cpp.
extern "C" bool aoti_torch_cpu_multiply_pairs(const void*, int64_t, const void*, int64_t, float*,
                                              int64_t, int64_t, int64_t, int64_t, bool);

// Threads of one parallel region: what the host allows, no more than have something to do.
static inline int pteron_threads(int64_t useful) {
  const int64_t available = omp_get_max_threads();
  return static_cast<int>(std::clamp<int64_t>(useful, 1, available));
}

// Integers, divided. By 0, and to a quotient that the type does not hold, is an error at a line of
// the model; of the least number by -1 there is a remainder, 0.
template <typename T, typename U, typename C = std::common_type_t<T, U>>
static inline C pteron_divide(T a, U b, const char* op, const char* file, uint32_t line) {
  if (b == 0) aoti_torch_check(false, op, file, line, "the divisor is 0, expected another number");
  if constexpr (std::is_signed_v<C>) {
    if (b == C(-1) && a == std::numeric_limits<C>::min()) {
      aoti_torch_check(false, op, file, line,
                       "the least number is divided by -1, expected a quotient of its type");
    }
  }
  return static_cast<C>(static_cast<C>(a) / static_cast<C>(b));
}
template <typename T, typename U, typename C = std::common_type_t<T, U>>
static inline C pteron_modulo(T a, U b, const char* op, const char* file, uint32_t line) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::fmod(static_cast<C>(a), static_cast<C>(b));
  } else {
    return std::is_signed_v<C> && b == C(-1) ? C(0)
           : static_cast<C>(a - pteron_divide(a, b, op, file, line) * b);
  }
}
template <typename T, typename U, typename C = std::common_type_t<T, U>>
static inline C pteron_remainder(T a, U b, const char* op, const char* file, uint32_t line) {
  const C rest = pteron_modulo(a, b, op, file, line);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<C>(rest + b) : rest;
}
template <typename T, typename U, typename C = std::common_type_t<T, U>>
static inline C pteron_floor_divide(T a, U b, const char* op, const char* file, uint32_t line) {
  const C quotient = pteron_divide(a, b, op, file, line);
  return static_cast<C>(quotient - ((a < 0) != (b < 0) && static_cast<C>(quotient * b) != a));
}

#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
// The first elements of a register, the others 0. at::vec takes them through memory.
template <typename T, int64_t count>
static inline at::vec::Vectorized<T> pteron_load(const T* bytes) {
#if defined(CPU_CAPABILITY_AVX512)
  if constexpr (count == 32) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    return at::vec::Vectorized<T>(_mm512_zextsi256_si512(half));
  }
#else
  if constexpr (count == 8 || count == 16) {
    const auto* first = reinterpret_cast<const __m128i*>(bytes);
    const __m128i half = count == 8 ? _mm_loadl_epi64(first) : _mm_loadu_si128(first);
    return at::vec::Vectorized<T>(_mm256_zextsi128_si256(half));
  }
#endif
  return at::vec::Vectorized<T>::loadu(bytes, count);
}
#endif

// Divides a matmul of M by N by K, in register blocks of Mr by Nr by Kr, among threads:
// blocks of each thread (t) and, of these, of what stays in its caches (c). All threads get a part,
// or else K is divided too if `divides_k`; parts as square as can be.
template <typename X, typename W>
static inline void pteron_divide(int64_t threads, bool divides_k, int64_t M, int64_t N, int64_t K,
                                 int64_t Mr, int64_t Nr, int64_t Kr, int64_t& Mt, int64_t& Nt,
                                 int64_t& Kt, int64_t& Mc, int64_t& Nc, int64_t& Kc, uint32_t L1,
                                 uint32_t L2) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  const int64_t m = parts(M, Mr), n = parts(N, Nr), k = parts(K, Kr);
  int64_t least = 0;
  const auto consider = [&](int64_t by_m, int64_t by_n, int64_t by_k) {
    const int64_t sides = parts(m, by_m) * Mr + parts(n, by_n) * Nr;
    if (least && sides >= least) return;
    least = sides;
    Mt = parts(m, by_m), Nt = parts(n, by_n), Kt = parts(k, by_k);
  };
  for (int64_t by_k = 1; by_k <= (divides_k ? threads : 1) && !least; ++by_k) {
    if (threads % by_k || by_k > k) continue;
    for (int64_t by_n = 1; by_n <= threads / by_k; ++by_n) {
      const int64_t by_m = threads / by_k / by_n;
      if (threads / by_k % by_n == 0 && by_n <= n && by_m <= m) consider(by_m, by_n, by_k);
    }
  }
  if (!least) {
    if (n >= m) consider(1, threads, 1);
    else consider(threads, 1, 1);
  }
  _mm_get_cache_blocking<X, W>(threads, M, N, K, Mr, Nr, Kr, Mt, Nt, Kt, Mc, Nc, Kc, L1, L2);
#if defined(CPU_CAPABILITY_AVX512)
  // As `larger_cache_blocks` does for two threads, in micro_gemms.py.
  if constexpr (!std::is_same_v<W, int8_t>) {
    const auto even_part = [&](int64_t whole, int64_t most) {
      return parts(whole, parts(whole, most));
    };
    Kc = even_part(Kt, 1024 / Kr);
    Mc = even_part(Mt, std::clamp<int64_t>((800 << 10) / (sizeof(X) * Mr * Kr * Kc), 1, 32));
    Nc = N % Nr ? 1 : std::min<int64_t>(8, Nt);
  }
#endif
}
"""
