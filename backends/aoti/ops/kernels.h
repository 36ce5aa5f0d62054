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

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

struct CountCall;
struct DistanceCall;
struct EmbeddingBagCall;
struct HistogramCall;
struct LinalgCall;
struct PoolingCall;
struct RangeCall;
struct ScanCall;
struct SearchCall;
struct SortCall;
struct SelectCall;

struct Kernels {
  Error (*distance)(const DistanceCall&) = nullptr;
  Error (*embedding_bag)(const EmbeddingBagCall&) = nullptr;
  Error (*linalg)(const LinalgCall&) = nullptr;
  Error (*pool)(const PoolingCall&) = nullptr;
  Error (*sort)(const SortCall&) = nullptr;
  Error (*select)(const SelectCall&) = nullptr;
  Error (*scan)(const ScanCall&) = nullptr;
  Error (*search)(const SearchCall&) = nullptr;
  Error (*histogram)(const HistogramCall&) = nullptr;
  Error (*range)(const RangeCall&) = nullptr;
  Error (*count)(const CountCall&) = nullptr;
};

}  // namespace pteron::aoti
