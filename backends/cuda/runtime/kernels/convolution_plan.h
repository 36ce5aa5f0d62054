// Execution plans of cuDNN for convolutions.
#pragma once

#include <memory>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

class VariantPack;

// For one convolution problem. Used by one thread at a time, with any handle.
struct ConvolutionPlan {
  ConvolutionPlan();
  ~ConvolutionPlan();
  ConvolutionPlan(ConvolutionPlan&&) noexcept;
  ConvolutionPlan& operator=(ConvolutionPlan&&) noexcept;

  std::shared_ptr<const void> owner;
  cudnnBackendDescriptor_t plan = nullptr;  // null: none
  size_t workspace = 0;
  // Whether it fuses bias, residual and relu; otherwise they are left to finish_convolution.
  bool whole = true;
  // Cached addresses; a model reuses the same ones.
  std::vector<std::unique_ptr<VariantPack>> packs;
  size_t next_pack = 0;
};

// Plans for the convolution with the bias and residual in `operands`, fastest first by cuDNN's
// estimate; at most `most`. NotSupported if there is none.
Result<std::vector<ConvolutionPlan>> make_convolution_plans(const Convolution& conv,
                                                            const ConvolutionOperands& operands,
                                                            cudnnHandle_t handle, size_t most);

// `workspace`: device memory of the plan's workspace size.
Error run_convolution_plan(const Cudnn& dnn, cudnnHandle_t handle, ConvolutionPlan& plan,
                           const ConvolutionOperands& operands, void* workspace);

}  // namespace pteron::cuda
