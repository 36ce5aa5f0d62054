#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "pteron/backends/cuda/runtime/kernels/indexing.h"
#include "pteron/backends/cuda/runtime/kernels/items.cuh"
#include "pteron/backends/cuda/runtime/kernels/wide.cuh"

namespace pteron::cuda {
namespace {

static_assert(sizeof(Indexing) <= 4000, "is passed to kernels by value");

struct Offsets {
  int64_t x, other;
  bool inside;
};

__device__ Offsets locate(const Indexing& s, int64_t i) {
  int64_t coordinates[kMaxIndexedDims];
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
__device__ void for_each_element(const Indexing& s, int64_t count, const Body& body) {
  for_each_item(count, [&](int64_t i) { body(locate(s, i)); });
}

template <typename Item>
__global__ void read_kernel(__grid_constant__ const Indexing s, const Item* x, Item* out,
                            int64_t count) {
  for_each_element(s, count,
                   [&](const Offsets& at) { out[at.other] = at.inside ? x[at.x] : Item{}; });
}

template <typename Item>
__global__ void write_kernel(__grid_constant__ const Indexing s, Item* x, const Item* values,
                             int64_t count) {
  for_each_element(s, count, [&](const Offsets& at) {
    if (at.inside) x[at.x] = values[at.other];
  });
}

template <typename W>
__device__ W combine(Reduction reduction, W a, W b) {
  switch (reduction) {
    case Reduction::kProduct:
      return a * b;
    // A NaN on either side wins.
    case Reduction::kMaximum:
      return a != a || a > b ? a : b;
    case Reduction::kMinimum:
      return a != a || a < b ? a : b;
    default:
      return a + b;
  }
}

// What changes nothing when something is reduced with it.
template <typename W>
W neutral(Reduction reduction) {
  using Limits = std::numeric_limits<W>;
  switch (reduction) {
    case Reduction::kProduct:
      return W(1);
    case Reduction::kMaximum:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Reduction::kMinimum:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return W(0);
  }
}

template <typename T>
__global__ void reset_kernel(__grid_constant__ const Indexing s, T* x, T value, int64_t count) {
  for_each_element(s, count, [&](const Offsets& at) {
    if (at.inside) x[at.x] = value;
  });
}

template <typename T>
__global__ void reduce_kernel(__grid_constant__ const Indexing s, Reduction reduction, T* x,
                              const T* values, int32_t* counts, int64_t count) {
  using W = typename Wide<T>::type;
  for_each_element(s, count, [&](const Offsets& at) {
    if (!at.inside) return;
    const W value = static_cast<W>(values[at.other]);
    update(x + at.x, [&](W current) { return combine<W>(reduction, current, value); });
    if (counts) atomicAdd(counts + at.x, 1);
  });
}

// Divides once, in the thread that takes the count.
template <typename T>
__global__ void mean_kernel(__grid_constant__ const Indexing s, T* x, int32_t* counts,
                            bool include_self, int64_t count) {
  using W = typename Wide<T>::type;
  for_each_element(s, count, [&](const Offsets& at) {
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

template <typename Item>
__global__ void set_kernel(Item* x, Item value) {
  *x = value;
}

int64_t count_of(const Indexing& s) {
  int64_t count = 1;
  for (int d = 0; d < s.dims; ++d) count *= s.sizes[d];
  return count;
}

}  // namespace

Error index_read(const Indexing& indexing, size_t item_nbytes, const void* x, void* out,
                 cudaStream_t stream) {
  const int64_t count = count_of(indexing);
  if (count == 0) return Error::Ok;
  return with_item(item_nbytes, "indexing", [&](auto item) {
    using Item = decltype(item);
    read_kernel<Item><<<item_blocks(count), kItemThreads, 0, stream>>>(
        indexing, static_cast<const Item*>(x), static_cast<Item*>(out), count);
  });
}

Error index_write(const Indexing& indexing, size_t item_nbytes, void* x, const void* values,
                  cudaStream_t stream) {
  const int64_t count = count_of(indexing);
  if (count == 0) return Error::Ok;
  return with_item(item_nbytes, "indexing", [&](auto item) {
    using Item = decltype(item);
    write_kernel<Item><<<item_blocks(count), kItemThreads, 0, stream>>>(
        indexing, static_cast<Item*>(x), static_cast<const Item*>(values), count);
  });
}

Error index_reduce(const Indexing& indexing, Reduction reduction, bool include_self,
                   ScalarType dtype, void* x, const void* values, int32_t* counts,
                   cudaStream_t stream) {
  const int64_t count = count_of(indexing);
  const auto reduce = [&](auto number) {
    using T = decltype(number);
    if (count == 0) return Error(Error::Ok);
    auto* const target = static_cast<T*>(x);
    if (!include_self) {
      const T start = static_cast<T>(neutral<typename Wide<T>::type>(reduction));
      reset_kernel<T>
          <<<item_blocks(count), kItemThreads, 0, stream>>>(indexing, target, start, count);
    }
    reduce_kernel<T><<<item_blocks(count), kItemThreads, 0, stream>>>(
        indexing, reduction, target, static_cast<const T*>(values), counts, count);
    if (reduction == Reduction::kMean) {
      mean_kernel<T><<<item_blocks(count), kItemThreads, 0, stream>>>(indexing, target, counts,
                                                                      include_self, count);
    }
    return launched("indexing");
  };
  switch (dtype) {
    case ScalarType::Half:
      return reduce(__half{});
    case ScalarType::BFloat16:
      return reduce(__nv_bfloat16{});
    case ScalarType::Float:
      return reduce(float{});
    case ScalarType::Double:
      return reduce(double{});
    case ScalarType::Byte:
      return reduce(uint8_t{});
    case ScalarType::Char:
      return reduce(int8_t{});
    case ScalarType::Short:
      return reduce(int16_t{});
    case ScalarType::Int:
      return reduce(int32_t{});
    case ScalarType::Long:
      return reduce(int64_t{});
    case ScalarType::Bool:
      return reduce(bool{});
    default:
      return make_error(Error::InvalidType, "reducing where indices say: no kernel for %s",
                        name_of(dtype));
  }
}

Error set_item(size_t item_nbytes, void* x, const void* value, cudaStream_t stream) {
  return with_item(item_nbytes, "indexing", [&](auto item) {
    std::memcpy(&item, value, sizeof item);
    set_kernel<<<1, 1, 0, stream>>>(static_cast<decltype(item)*>(x), item);
  });
}

}  // namespace pteron::cuda
