// Execution plans of cuDNN for convolutions.
#pragma once

#include <memory>
#include <vector>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

class VariantPack;

// For one kind and size of convolution. One thread at a time may run it, with any handle.
struct ConvolutionPlan {
  ConvolutionPlan();
  ~ConvolutionPlan();
  ConvolutionPlan(ConvolutionPlan&&) noexcept;
  ConvolutionPlan& operator=(ConvolutionPlan&&) noexcept;

  std::shared_ptr<const void> owner;
  cudnnBackendDescriptor_t plan = nullptr;  // null: there is none
  size_t workspace = 0;
  // Whether bias, residual and relu are in it; else they are left to finish_convolution.
  bool whole = true;
  // The addresses that it ran with; a model comes back to the same ones.
  std::vector<std::unique_ptr<VariantPack>> packs;
  size_t next_pack = 0;
};

// Plans that compute the convolution, with whatever of bias and residual `operands` has, by the
// library's estimate fastest first; at most `most`. NotSupported if it has none.
Result<std::vector<ConvolutionPlan>> make_convolution_plans(const Convolution& conv,
                                                            const ConvolutionOperands& operands,
                                                            cudnnHandle_t handle, size_t most);

// `workspace`: of as many bytes as the plan says, on the device.
Error run_convolution_plan(const Cudnn& dnn, cudnnHandle_t handle, ConvolutionPlan& plan,
                           const ConvolutionOperands& operands, void* workspace);

}  // namespace pteron::cuda
