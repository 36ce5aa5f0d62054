#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <random>

#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda::testing {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

template <typename Function>
void for_each_offset(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     Function&& function) {
  const int64_t count = product(sizes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    function(i, offset);
  }
}

std::vector<unsigned char> poison(size_t nbytes, DType dtype) {
  std::vector<unsigned char> bytes(nbytes, 0x7b);  // a large integer
  if (!slim::is_floating_point(dtype)) return bytes;
  const size_t item = slim::element_size(dtype);
  for (size_t i = 0; i + item <= nbytes; i += item) {
    slim::store_scalar(dtype, bytes.data() + i, slim::Scalar::of(std::nan("")));
  }
  return bytes;
}

TensorPtr make(const std::vector<int64_t>& sizes, DType dtype, std::vector<int64_t> strides,
               Device device) {
  if (strides.empty()) strides = contiguous(sizes);
  Result<TensorPtr> tensor = slim::make_tensor(sizes, strides, dtype, device);
  if (!tensor.ok()) {
    ADD_FAILURE() << tensor.error().message();
    return nullptr;
  }
  return std::move(*tensor);
}

void write_storage(const SlimTensor& tensor, const std::vector<unsigned char>& bytes) {
  const size_t nbytes = std::min(bytes.size(), tensor.storage()->nbytes);
  ASSERT_EQ(cudaMemcpy(tensor.storage()->data, bytes.data(), nbytes, cudaMemcpyHostToDevice),
            cudaSuccess);
}

void no_destroy(slim::Storage* storage) noexcept { delete storage; }

}  // namespace

int64_t HostTensor::numel() const { return product(sizes); }

HostTensor HostTensor::random(std::vector<int64_t> sizes, uint64_t seed) {
  HostTensor host{std::move(sizes), {}};
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  host.values.resize(static_cast<size_t>(host.numel()));
  for (double& value : host.values) value = normal(engine);
  return host;
}

HostTensor HostTensor::zeros(std::vector<int64_t> sizes) {
  HostTensor host{std::move(sizes), {}};
  host.values.assign(static_cast<size_t>(host.numel()), 0.0);
  return host;
}

HostTensor round_to(const HostTensor& host, DType dtype) {
  HostTensor rounded = host;
  unsigned char element[16];
  for (double& value : rounded.values) {
    slim::store_scalar(dtype, element, slim::Scalar::of(value));
    value = slim::load_scalar(dtype, element).to_double();
  }
  return rounded;
}

TensorPtr to_device(const HostTensor& host, DType dtype, std::vector<int64_t> strides,
                    Device device) {
  if (strides.empty()) strides = contiguous(host.sizes);
  TensorPtr tensor = make(host.sizes, dtype, strides, device);
  if (!tensor) return tensor;
  std::vector<unsigned char> bytes = poison(tensor->storage()->nbytes, dtype);
  const size_t item = slim::element_size(dtype);
  for_each_offset(host.sizes, strides, [&](int64_t i, int64_t offset) {
    slim::store_scalar(dtype, bytes.data() + static_cast<size_t>(offset) * item,
                       slim::Scalar::of(host.values[static_cast<size_t>(i)]));
  });
  write_storage(*tensor, bytes);
  return tensor;
}

TensorPtr poisoned(std::vector<int64_t> sizes, DType dtype, std::vector<int64_t> strides,
                   Device device) {
  TensorPtr tensor = make(sizes, dtype, std::move(strides), device);
  if (tensor) write_storage(*tensor, poison(tensor->storage()->nbytes, dtype));
  return tensor;
}

TensorPtr pretend_cuda(std::vector<int64_t> sizes, DType dtype, std::vector<int64_t> strides,
                       int device) {
  if (strides.empty()) strides = contiguous(sizes);
  auto* storage = new slim::Storage();
  storage->data = reinterpret_cast<void*>(uintptr_t{0x1000});
  storage->nbytes = size_t{1} << 40;
  storage->device = Device{DeviceType::CUDA, static_cast<int8_t>(device)};
  storage->destroy = &no_destroy;
  auto tensor = std::make_unique<SlimTensor>();
  Error error = tensor->set(slim::StorageRef(storage), sizes, strides, 0, dtype);
  EXPECT_TRUE(error.ok()) << error.message();
  return tensor;
}

std::vector<unsigned char> storage_bytes(const SlimTensor& tensor) {
  std::vector<unsigned char> bytes(tensor.storage()->nbytes);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(bytes.data(), tensor.storage()->data, bytes.size(), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return bytes;
}

HostTensor to_host(const SlimTensor& tensor) {
  HostTensor host;
  host.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  const std::vector<int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  host.values.resize(static_cast<size_t>(host.numel()));
  if (host.values.empty()) return host;
  const std::vector<unsigned char> bytes = storage_bytes(tensor);
  const size_t item = tensor.item_size();
  for_each_offset(host.sizes, strides, [&](int64_t i, int64_t offset) {
    const auto at = static_cast<size_t>(tensor.storage_offset() + offset) * item;
    host.values[static_cast<size_t>(i)] =
        slim::load_scalar(tensor.dtype(), bytes.data() + at).to_double();
  });
  return host;
}

::testing::AssertionResult close_to(const HostTensor& out, const HostTensor& reference,
                                    double tolerance) {
  if (out.sizes != reference.sizes) return ::testing::AssertionFailure() << "sizes differ";
  double difference = 0, norm = 0;
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (std::isnan(out.values[i])) {
      return ::testing::AssertionFailure() << "element " << i << " is NaN (never written?)";
    }
    const double error = out.values[i] - reference.values[i];
    difference += error * error;
    norm += reference.values[i] * reference.values[i];
  }
  const double relative = std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
  if (relative <= tolerance) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "relative error " << relative << " is above " << tolerance;
}

::testing::AssertionResult equal_to(const HostTensor& out, const HostTensor& reference) {
  if (out.sizes != reference.sizes) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < out.values.size(); ++i) {
    const bool both_nan = std::isnan(out.values[i]) && std::isnan(reference.values[i]);
    if (!both_nan && out.values[i] != reference.values[i]) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << out.values[i] << ", expected " << reference.values[i];
    }
  }
  return ::testing::AssertionSuccess();
}

double gemm_tolerance(DType dtype, int64_t k) {
  // The larger of rounding the result once and of a sequential sum of k terms.
  const double terms = std::sqrt(static_cast<double>(std::max<int64_t>(k, 1)));
  switch (dtype) {
    case DType::BFloat16:
      return 4 * std::ldexp(1.0, -9);
    case DType::Half:
      return 4 * std::ldexp(1.0, -12);
    case DType::Double:
      return 4 * terms * std::ldexp(1.0, -53);
    default:
      return 4 * terms * std::ldexp(1.0, -24);
  }
}

HostTensor matmul(const HostTensor& a, const HostTensor& b) {
  const bool batched = a.sizes.size() == 3;
  const int64_t batch = batched ? a.sizes[0] : 1;
  const int64_t m = a.sizes[batched ? 1 : 0], k = a.sizes[batched ? 2 : 1];
  const int64_t n = b.sizes[batched ? 2 : 1];
  HostTensor out =
      HostTensor::zeros(batched ? std::vector<int64_t>{batch, m, n} : std::vector<int64_t>{m, n});
  for (int64_t i = 0; i < batch * m; ++i) {
    const int64_t matrix = i / m;
    double* row = out.values.data() + i * n;
    for (int64_t p = 0; p < k; ++p) {
      const double factor = a.values[static_cast<size_t>(i * k + p)];
      const double* line = b.values.data() + (matrix * k + p) * n;
      for (int64_t j = 0; j < n; ++j) row[j] += factor * line[j];
    }
  }
  return out;
}

std::vector<int64_t> contiguous(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

}  // namespace pteron::cuda::testing
