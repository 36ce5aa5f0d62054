// The DLPack ABI, version 1, for exchanging tensors between array libraries. Only what the binding
// needs; layouts and values follow the DLPack specification.
#pragma once

#include <cstdint>

namespace pteron::python::dlpack {

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr uint32_t kMinorVersion = 1;

// Names of the capsules that `__dlpack__` returns.
inline constexpr char kCapsule[] = "dltensor";
inline constexpr char kVersionedCapsule[] = "dltensor_versioned";
// Name of the capsule in the attribute `__dlpack_c_exchange_api__` of a type.
inline constexpr char kExchangeApiCapsule[] = "dlpack_exchange_api";
inline constexpr char kExchangeApiAttribute[] = "__dlpack_c_exchange_api__";

// A flag of ManagedTensorVersioned.
inline constexpr uint64_t kReadOnly = 1;

enum DeviceCode : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct Device {
  int32_t type;  // DeviceCode
  int32_t index;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);  // may be null
};

struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  Tensor tensor;
};

// A table of functions of a tensor type, to exchange tensors without calling Python. Those that
// return int return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;  // for an older version of DLPack, or null
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
  int (*managed_to_object)(ManagedTensorVersioned* tensor,
                           void** out_object);             // takes ownership of `tensor`
  int (*borrowed_from_object)(void* object, Tensor* out);  // may be null
  int (*current_work_stream)(int32_t device_type, int32_t device_index, void** out_stream);
};

}  // namespace pteron::python::dlpack
