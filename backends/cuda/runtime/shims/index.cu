// Negative indices count from the end; one that is still outside reads zero and writes nothing.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "pteron/backends/aoti/ops/index/index.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

using Kind = aoti::IndexCall::Kind;

constexpr const char* kWhat = "indexing";

// One dimension of x, and the numbers that pick from it.
struct IndexedDim {
  Indices numbers;
  int64_t size, stride;             // of x in this dimension
  int64_t strides[slim::kMaxDims];  // of the numbers, along the result's dimensions
};

// Kernel arguments: x[...], seen in the sizes of the result.
struct Indexing {
  int dims;  // of the result
  int64_t count;
  int64_t sizes[slim::kMaxDims];
  int64_t x_strides[slim::kMaxDims];      // 0 in the indexed dimensions
  int64_t other_strides[slim::kMaxDims];  // of the result, or of what is written
  int num_indices;
  IndexedDim indices[slim::kMaxDims];
};
static_assert(sizeof(Indexing) <= 4000, "is passed to kernels by value");

struct Offsets {
  int64_t x, other;
  bool inside;
};

__device__ Offsets locate(const Indexing& s, int64_t i) {
  int64_t coordinates[slim::kMaxDims];
  Offsets at{0, 0, true};
  for (int d = s.dims; d-- > 0;) {
    coordinates[d] = i % s.sizes[d];
    i /= s.sizes[d];
    at.x += coordinates[d] * s.x_strides[d];
    at.other += coordinates[d] * s.other_strides[d];
  }
  for (int k = 0; k < s.num_indices; ++k) {
    const IndexedDim& index = s.indices[k];
    int64_t offset = 0;
    for (int d = 0; d < s.dims; ++d) offset += coordinates[d] * index.strides[d];
    int64_t number = index.numbers[offset];
    if (number < 0) number += index.size;
    if (number < 0 || number >= index.size) at.inside = false;
    at.x += number * index.stride;
  }
  return at;
}

// Calls body(at) for this thread's elements of the result.
template <typename Body>
__device__ void for_each_element(const Indexing& s, const Body& body) {
  for_each_item(s.count, [&](int64_t i) { body(locate(s, i)); });
}

template <typename Item>
__global__ void read_kernel(__grid_constant__ const Indexing s, const Item* x, Item* out) {
  for_each_element(s, [&](const Offsets& at) { out[at.other] = at.inside ? x[at.x] : Item{}; });
}

template <typename Item>
__global__ void write_kernel(__grid_constant__ const Indexing s, Item* x, const Item* values) {
  for_each_element(s, [&](const Offsets& at) {
    if (at.inside) x[at.x] = values[at.other];
  });
}

template <typename W>
__device__ W combine(Kind kind, W a, W b) {
  switch (kind) {
    case Kind::kProduct:
      return a * b;
    // A NaN on either side wins.
    case Kind::kMaximum:
      return a != a || a > b ? a : b;
    case Kind::kMinimum:
      return a != a || a < b ? a : b;
    default:
      return a + b;
  }
}

// What changes nothing when something is reduced with it.
template <typename W>
W neutral(Kind kind) {
  using Limits = std::numeric_limits<W>;
  switch (kind) {
    case Kind::kProduct:
      return W(1);
    case Kind::kMaximum:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Kind::kMinimum:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return W(0);
  }
}

template <typename T>
__global__ void reset_kernel(__grid_constant__ const Indexing s, T* x, T value) {
  for_each_element(s, [&](const Offsets& at) {
    if (at.inside) x[at.x] = value;
  });
}

// One rounded step at a time: sums and products of floating-point numbers differ from run to run in
// the last bits.
template <typename T>
__global__ void reduce_kernel(__grid_constant__ const Indexing s, Kind kind, T* x, const T* values,
                              int32_t* counts) {
  using W = typename Wide<T>::type;
  for_each_element(s, [&](const Offsets& at) {
    if (!at.inside) return;
    const W value = static_cast<W>(values[at.other]);
    update(x + at.x, [&](W current) { return combine<W>(kind, current, value); });
    if (counts) atomicAdd(counts + at.x, 1);
  });
}

// Divides once, in the thread that takes the count.
template <typename T>
__global__ void mean_kernel(__grid_constant__ const Indexing s, T* x, int32_t* counts,
                            bool include_self) {
  using W = typename Wide<T>::type;
  for_each_element(s, [&](const Offsets& at) {
    const int32_t taken = at.inside ? atomicExch(counts + at.x, 0) : 0;
    if (taken == 0) return;
    const int32_t divisor = taken + (include_self ? 1 : 0);
    if constexpr (std::is_integral_v<W>) {
      const auto sum = static_cast<int64_t>(x[at.x]);
      x[at.x] = static_cast<T>(sum / divisor - (sum % divisor < 0 ? 1 : 0));
    } else {
      x[at.x] = static_cast<T>(static_cast<W>(x[at.x]) / static_cast<W>(divisor));
    }
  });
}

// `counts`, for kMean alone: zeroed, for each element of x from its first to its last.
template <typename T>
Error reduce(const aoti::IndexCall& call, const Indexing& s, int32_t* counts, cudaStream_t stream) {
  auto* const x = call.indexed.x->data_as<T>();
  if (!call.include_self) {
    const T start = static_cast<T>(neutral<typename Wide<T>::type>(call.kind));
    PTERON_RETURN_IF_ERROR(launch_items(s.count, stream, kWhat, reset_kernel<T>, s, x, start));
  }
  PTERON_RETURN_IF_ERROR(launch_items(s.count, stream, kWhat, reduce_kernel<T>, s, call.kind, x,
                                      call.other.data_as<const T>(), counts));
  if (call.kind != Kind::kMean) return Error::Ok;
  return launch_items(s.count, stream, kWhat, mean_kernel<T>, s, x, counts, call.include_self);
}

Indexing indexing_of(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  Indexing s{};
  s.dims = static_cast<int>(x.dim());
  s.count = x.numel();
  std::copy(x.sizes().begin(), x.sizes().end(), s.sizes);
  std::copy(x.strides().begin(), x.strides().end(), s.x_strides);
  std::copy(other.strides().begin(), other.strides().end(), s.other_strides);
  for (const aoti::Indexed::Picked& picked : call.indexed.picked) {
    const SlimTensor& numbers = *picked.numbers;
    IndexedDim& dim = s.indices[s.num_indices++];
    dim.numbers = indices_of(numbers);
    dim.size = picked.size;
    dim.stride = picked.stride;
    std::copy(numbers.strides().begin(), numbers.strides().end(), dim.strides + call.indexed.first);
  }
  return s;
}

}  // namespace

Error index(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  const Indexing s = indexing_of(call);
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(x));
  const cudaStream_t stream = scope.stream();
  if (call.kind == Kind::kRead || call.kind == Kind::kWrite) {
    return with_item(x.item_size(), kWhat, [&](auto item) {
      using Item = decltype(item);
      return call.kind == Kind::kRead
                 ? launch_items(s.count, stream, kWhat, read_kernel<Item>, s,
                                x.data_as<const Item>(), other.data_as<Item>())
                 : launch_items(s.count, stream, kWhat, write_kernel<Item>, s, x.data_as<Item>(),
                                other.data_as<const Item>());
    });
  }
  slim::StorageRef scratch;
  int32_t* counts = nullptr;
  if (call.kind == Kind::kMean && s.count > 0) {
    const size_t nbytes = static_cast<size_t>(call.indexed.reach()) * sizeof(int32_t);
    PTERON_ASSIGN_OR_RETURN(scratch, allocate_scratch(nbytes, scope.device()));
    counts = static_cast<int32_t*>(scratch->data);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counts, 0, nbytes, stream),
                                "counting reduced values");
  }
  switch (x.dtype()) {
    case DType::Half:
      return reduce<__half>(call, s, counts, stream);
    case DType::BFloat16:
      return reduce<__nv_bfloat16>(call, s, counts, stream);
    case DType::Float:
      return reduce<float>(call, s, counts, stream);
    case DType::Double:
      return reduce<double>(call, s, counts, stream);
    case DType::Byte:
      return reduce<uint8_t>(call, s, counts, stream);
    case DType::Char:
      return reduce<int8_t>(call, s, counts, stream);
    case DType::Short:
      return reduce<int16_t>(call, s, counts, stream);
    case DType::Int:
      return reduce<int32_t>(call, s, counts, stream);
    case DType::Long:
      return reduce<int64_t>(call, s, counts, stream);
    case DType::Bool:
      return reduce<bool>(call, s, counts, stream);
    default:
      return make_error(Error::InvalidType, "reducing where indices say: no kernel for %s",
                        slim::name_of(x.dtype()));
  }
}

}  // namespace pteron::cuda
