// The part of the suite of operators (test_ops.cpp) that a test is, as its target says.
namespace pteron::cuda {

extern const char* const kTestedShim;
extern const bool kWithCudnn;

#ifdef PTERON_TESTED_SHIM
const char* const kTestedShim = PTERON_TESTED_SHIM;
#else
const char* const kTestedShim = nullptr;
#endif

#ifdef PTERON_WITHOUT_CUDNN
const bool kWithCudnn = false;
#else
const bool kWithCudnn = true;
#endif

}  // namespace pteron::cuda
