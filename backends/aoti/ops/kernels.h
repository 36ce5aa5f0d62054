// What a device brings for the operators of this folder: a function for each kind of work.
//
//   const Kernels& kernels() {                       // of a device
//     static const Kernels kernels = [] {
//       Kernels k;
//       k.sort = sort;
//       return k;
//     }();
//     return kernels;
//   }
//
// Calls come with arguments that are checked and results that are allocated; a function launches
// the work, on the current stream where there are streams, and may leave results unwritten when it
// fails. A device lists the families in its shims.inc for which it has all that they call.
#pragma once

#include <cstdint>
#include <optional>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"

namespace pteron::slim {
struct Scalar;
}

namespace pteron::aoti {

struct ArithmeticCall;
struct ConvolutionCall;
struct CountCall;
struct DistanceCall;
struct EmbeddingBagCall;
struct FftCall;
struct HistogramCall;
struct IndexCall;
struct Int8WeightCall;
struct LinalgCall;
struct MaskedScatterCall;
struct MultinomialCall;
struct PermutationCall;
struct PoolingCall;
struct ProductCall;
struct RandomIntegersCall;
struct RangeCall;
struct RunsCall;
struct ScanCall;
struct SearchCall;
struct SelectCall;
struct SortCall;

struct Kernels {
  Error (*arithmetic)(const ArithmeticCall&) = nullptr;
  Error (*convolution)(const ConvolutionCall&) = nullptr;
  Error (*count)(const CountCall&) = nullptr;
  Error (*distance)(const DistanceCall&) = nullptr;
  Error (*embedding_bag)(const EmbeddingBagCall&) = nullptr;
  Error (*fft)(const FftCall&) = nullptr;
  Error (*fill)(const slim::SlimTensor& out, const slim::Scalar& value) = nullptr;
  // A number (int32 or int64) that is not in [low, end). Null on devices that would have to wait:
  // their kernels read nothing and write nothing for such indices.
  std::optional<int64_t> (*find_outside)(const slim::SlimTensor& numbers, int64_t low,
                                         int64_t end) = nullptr;
  Error (*histogram)(const HistogramCall&) = nullptr;
  Error (*index)(const IndexCall&) = nullptr;
  Error (*int8_weight)(const Int8WeightCall&) = nullptr;
  Error (*linalg)(const LinalgCall&) = nullptr;
  // starts (bool) = which rows, in this order or as they lie, differ from the one before; the first
  // does, and NaN from NaN.
  Error (*mark_runs)(const slim::SlimTensor& rows, const slim::SlimTensor* order,
                     const slim::SlimTensor& starts) = nullptr;
  Error (*masked_scatter)(const MaskedScatterCall&) = nullptr;
  Error (*multinomial)(const MultinomialCall&) = nullptr;
  // Where a tensor is not zero: (count, dimensions) in int64, with strides (1, count). Waits for
  // the device, since the result's size depends on that.
  Error (*nonzero)(const slim::SlimTensor& self, slim::TensorPtr& coordinates) = nullptr;
  Error (*number_runs)(const RunsCall&) = nullptr;
  // Of a row-major matrix: order = numbers of rows (int64), so that they rise by their first elements
  // that differ, NaN last; equal ones keep their order.
  Error (*order_rows)(const slim::SlimTensor& rows, const slim::SlimTensor& order) = nullptr;
  Error (*pool)(const PoolingCall&) = nullptr;
  Error (*product)(const ProductCall&) = nullptr;
  Error (*random_integers)(const RandomIntegersCall&) = nullptr;
  Error (*random_permutation)(const PermutationCall&) = nullptr;
  Error (*range)(const RangeCall&) = nullptr;
  Error (*scan)(const ScanCall&) = nullptr;
  Error (*search)(const SearchCall&) = nullptr;
  Error (*select)(const SelectCall&) = nullptr;
  Error (*sort)(const SortCall&) = nullptr;
};

// The kernels of a type of device, for operators that models call by one name on all devices. The
// library that brings them registers them when it is opened; null for a type that none did.
// Thread-safe.
void register_kernels(DeviceType type, const Kernels* kernels);
const Kernels* find_kernels(DeviceType type);

}  // namespace pteron::aoti
