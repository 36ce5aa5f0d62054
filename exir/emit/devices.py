"""Devices of values: the host, or the device of the delegates that use them."""

from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir._serialize.schema import DeviceType
from pteron.exir.graph import kernels
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule, lowered_module_of

TARGET_DEVICE_KEY = "target_device"
"""Key of the compile spec with the device of a backend's tensors, such as `cuda:0`."""

_TYPES = {"cpu": DeviceType.CPU, "cuda": DeviceType.CUDA}


class Device(NamedTuple):
    type: DeviceType
    index: int  # type: ignore[assignment] # hides tuple.index, which nothing calls


CPU = Device(DeviceType.CPU, 0)


def device_of_delegate(module: LoweredBackendModule) -> Device:
    """The device of a delegate's tensors: the host, unless a compile spec sets another."""
    for spec in module.compile_specs:
        if spec.key == TARGET_DEVICE_KEY:
            kind, _, index = spec.value.decode().partition(":")
            if kind not in _TYPES or (index and not index.isdecimal()):
                raise ValueError(
                    f"compile spec {TARGET_DEVICE_KEY} of {module.backend_id} is"
                    f" {spec.value.decode()!r}; expected one of {sorted(_TYPES)}, with an index"
                    f" if there are several, such as 'cuda:1'"
                )
            return Device(_TYPES[kind], int(index or 0))
    return CPU


def device_of_users(program: ExportedProgram, node: Node) -> Device:
    """The device whose delegates are the only users of an input; otherwise the host."""
    devices = {
        device_of_delegate(lowered_module_of(user))
        if user.target is executorch_call_delegate
        else CPU
        for user in node.users
        if user.op != "output"
    }
    value = node.meta.get("val")
    if len(devices) == 1 and isinstance(value, torch.Tensor):
        return devices.pop()
    return CPU


def copy_kernel(target: Device) -> str:
    """The kernel that copies a tensor to `target` from the host or to the host."""
    return kernels.DEVICE_TO_HOST if target == CPU else kernels.HOST_TO_DEVICE
