// The GPU of a Mac. Type-checked on Linux against our own declarations (tests/stubs); never executed.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pteron/backends/apple/metal/runtime/gpu.h"

namespace pteron::metal {
namespace {

std::string text_of(NSError* error) {
  return error ? std::string(error.localizedDescription.UTF8String)
               : std::string("no reason given");
}

NSString* string_of(const std::string& text) {
  return [NSString stringWithUTF8String:text.c_str()];
}

// One queue and one serial encoder, which stays open until the host synchronizes.
class MetalGpu final : public Gpu {
 public:
  MetalGpu(id<MTLDevice> device, id<MTLCommandQueue> queue) : device_(device), queue_(queue) {}

  std::string describe() const override { return std::string(device_.name.UTF8String); }

  Result<void*> allocate(size_t nbytes) override {
    id<MTLBuffer> buffer = [device_ newBufferWithLength:nbytes
                                                options:MTLResourceStorageModeShared];
    PTERON_CHECK_OR_RETURN(buffer != nil, Error::MemoryAllocationFailed, "no memory for %zu bytes",
                           nbytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_[static_cast<const char*>(buffer.contents)] = buffer;
    return buffer.contents;
  }

  void release(void* memory) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.erase(static_cast<const char*>(memory));  // commands retain their resources
  }

  Result<std::unique_ptr<Library>> compile(const std::string& source) override;

  Error wait() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!commands_) return Error::Ok;
    [encoder_ endEncoding];
    [commands_ commit];
    [commands_ waitUntilCompleted];
    NSError* const error = commands_.error;
    encoder_ = nil;
    commands_ = nil;
    PTERON_CHECK_OR_RETURN(error == nil, Error::Internal, "the GPU failed: %s",
                           text_of(error).c_str());
    return Error::Ok;
  }

  Error dispatch(id<MTLComputePipelineState> pipeline, const std::string& name,
                 Span<const Argument> arguments, Threads grid, Threads group) {
    const std::lock_guard<std::mutex> lock(mutex_);
    PTERON_CHECK_OR_RETURN(group[0] * group[1] * group[2] <= pipeline.maxTotalThreadsPerThreadgroup,
                           Error::InvalidArgument,
                           "%s: groups of %llu threads, expected at most %llu", name.c_str(),
                           static_cast<unsigned long long>(group[0] * group[1] * group[2]),
                           static_cast<unsigned long long>(pipeline.maxTotalThreadsPerThreadgroup));
    if (!commands_) {
      commands_ = [queue_ commandBuffer];
      encoder_ = [commands_ computeCommandEncoder];
    }
    PTERON_CHECK_OR_RETURN(encoder_ != nil, Error::Internal, "%s: the GPU takes no commands",
                           name.c_str());
    [encoder_ setComputePipelineState:pipeline];
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      if (argument.nbytes > 0) {
        [encoder_ setBytes:argument.data length:argument.nbytes atIndex:i];
        continue;
      }
      const auto* const at = static_cast<const char*>(argument.data);
      auto after = buffers_.upper_bound(at);
      const bool inside = after != buffers_.begin() &&
                          at <= std::prev(after)->first + std::prev(after)->second.length;
      PTERON_CHECK_OR_RETURN(
          inside, Error::InvalidArgument,
          "%s: argument %zu: %p is no memory of the device, or has been released", name.c_str(), i,
          argument.data);
      const auto& [begin, buffer] = *std::prev(after);
      [encoder_ setBuffer:buffer offset:static_cast<NSUInteger>(at - begin) atIndex:i];
    }
    [encoder_ dispatchThreads:MTLSizeMake(grid[0], grid[1], grid[2])
        threadsPerThreadgroup:MTLSizeMake(group[0], group[1], group[2])];
    return Error::Ok;
  }

 private:
  const id<MTLDevice> device_;
  const id<MTLCommandQueue> queue_;
  std::mutex mutex_;
  std::map<const char*, id<MTLBuffer>> buffers_;
  id<MTLCommandBuffer> commands_ = nil;
  id<MTLComputeCommandEncoder> encoder_ = nil;
};

class MetalFunction final : public Function {
 public:
  MetalFunction(MetalGpu* gpu, std::string name, id<MTLComputePipelineState> pipeline)
      : gpu_(gpu), name_(std::move(name)), pipeline_(pipeline) {}

  const std::string& name() const override { return name_; }
  uint64_t max_threads_per_group() const override {
    return pipeline_.maxTotalThreadsPerThreadgroup;
  }
  Error dispatch(Span<const Argument> arguments, Threads grid, Threads group) override {
    return gpu_->dispatch(pipeline_, name_, arguments, grid, group);
  }

 private:
  MetalGpu* const gpu_;
  const std::string name_;
  const id<MTLComputePipelineState> pipeline_;
};

class MetalLibrary final : public Library {
 public:
  MetalLibrary(MetalGpu* gpu, id<MTLDevice> device, id<MTLLibrary> library)
      : gpu_(gpu), device_(device), library_(library) {}

  Result<Function*> find(const std::string& name) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& function : functions_) {
      if (function->name() == name) return function.get();
    }
    id<MTLFunction> function = [library_ newFunctionWithName:string_of(name)];
    PTERON_CHECK_OR_RETURN(function != nil, Error::NotFound,
                           "no kernel %s in the library, which has %s", name.c_str(),
                           names().c_str());
    NSError* error = nil;
    id<MTLComputePipelineState> pipeline = [device_ newComputePipelineStateWithFunction:function
                                                                                  error:&error];
    PTERON_CHECK_OR_RETURN(pipeline != nil, Error::InvalidProgram, "kernel %s: %s", name.c_str(),
                           text_of(error).c_str());
    functions_.push_back(std::make_unique<MetalFunction>(gpu_, name, pipeline));
    return functions_.back().get();
  }

 private:
  std::string names() const {
    std::string all;
    for (NSString* name in library_.functionNames) {
      all += (all.empty() ? "" : ", ") + std::string(name.UTF8String);
    }
    return all;
  }

  MetalGpu* const gpu_;
  const id<MTLDevice> device_;
  const id<MTLLibrary> library_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Function>> functions_;
};

// No fast math: kernels distinguish NaN and use compensated summation.
Result<std::unique_ptr<Library>> MetalGpu::compile(const std::string& source) {
  MTLCompileOptions* const options = [[MTLCompileOptions alloc] init];
  options.fastMathEnabled = NO;
  options.languageVersion = MTLLanguageVersion3_1;
  NSError* error = nil;
  id<MTLLibrary> library = [device_ newLibraryWithSource:string_of(source)
                                                 options:options
                                                   error:&error];
  PTERON_CHECK_OR_RETURN(library != nil, Error::InvalidProgram, "a kernel does not compile: %s",
                         text_of(error).c_str());
  return std::unique_ptr<Library>(std::make_unique<MetalLibrary>(this, device_, library));
}

[[maybe_unused]] const bool registered = [] {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  if (device == nil || !device.hasUnifiedMemory) return false;
  id<MTLCommandQueue> queue = [device newCommandQueue];
  if (queue == nil) return false;
  register_gpu(std::make_unique<MetalGpu>(device, queue));
  return true;
}();

}  // namespace
}  // namespace pteron::metal
