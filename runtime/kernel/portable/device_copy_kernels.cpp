// Explicit copies between host and device.
#include <algorithm>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"

namespace pteron::kernels {
namespace {

// out = self, one of them on a device. Same dtype, dim order and sizes: a plain byte copy.
Error copy_between_devices(Span<EValue* const> arguments, bool to_device) {
  PTERON_CHECK_OR_RETURN(arguments.size() >= 2, Error::InvalidArgument,
                         "found %zu arguments, expected 2", arguments.size());
  PTERON_CHECK_OR_RETURN(arguments[0]->is_tensor() && arguments[1]->is_tensor(), Error::InvalidType,
                         "found %s and %s, expected two tensors",
                         name_of(arguments[0]->value_kind()), name_of(arguments[1]->value_kind()));
  const Tensor& self = arguments[0]->tensor();
  Tensor& out = arguments[1]->tensor();
  const Device device = (to_device ? out : self).device();
  const Device host = (to_device ? self : out).device();
  PTERON_CHECK_OR_RETURN(device.type != DeviceType::CPU && host.type == DeviceType::CPU,
                         Error::InvalidArgument,
                         "expected one tensor on the host and one on a device");
  PTERON_CHECK_OR_RETURN(!out.is_constant(), Error::InvalidArgument,
                         "the tensor that is written is read-only");
  const Span<const uint8_t> order = self.dim_order();
  PTERON_CHECK_OR_RETURN(self.dtype() == out.dtype() && order.size() == out.dim() &&
                             std::equal(order.begin(), order.end(), out.dim_order().begin()),
                         Error::InvalidType, "cannot copy %s to %s: dtype and layout must be equal",
                         self.describe().c_str(), out.describe().c_str());
  PTERON_RETURN_IF_ERROR(resize_out(out, self.sizes()));
  if (self.nbytes() == 0) return Error::Ok;
  PTERON_CHECK_OR_RETURN(self.data() && out.data(), Error::InvalidState, "a tensor has no memory");
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  return allocator->copy(out.data(), out.device(), self.data(), self.device(), self.nbytes(),
                         Wait::Yes);
}

}  // namespace

Error h2d_copy_out(KernelContext&, Span<EValue* const> arguments) {
  return copy_between_devices(arguments, true);
}

Error d2h_copy_out(KernelContext&, Span<EValue* const> arguments) {
  return copy_between_devices(arguments, false);
}

}  // namespace pteron::kernels
