// Whether operators of the suite (test_ops.cpp) may use cuDNN, as the target says.
namespace pteron::cuda {

extern const bool kWithCudnn;
const bool kWithCudnn = PTERON_WITH_CUDNN;

}  // namespace pteron::cuda
