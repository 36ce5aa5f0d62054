"""Buffers that forward() reads in Python, which torch.export refuses: `if self.initialized:`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_READERS: dict[Any, Callable[[Any], Any]] = {
    torch.Tensor.__bool__: bool,
    torch.Tensor.__int__: int,
    torch.Tensor.__index__: int,
    torch.Tensor.__float__: float,
    torch.Tensor.item: lambda value: value,
}


class FixedBuffers(TorchFunctionMode):
    """Inside, Python reads the values that the module's buffers of one element had before.

    For torch.export with strict=False, while which the module has other tensors as its buffers.

    Attributes:
      read: value by name of those that were read.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._values = {
            name: buffer.item()
            for name, buffer in module.named_buffers()
            if buffer.numel() == 1 and buffer.device.type != "meta"
        }
        self.read: dict[str, bool | int | float | complex] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _READERS:
            for name, buffer in self._module.named_buffers():
                if buffer is args[0] and name in self._values:
                    self.read[name] = self._values[name]
                    return _READERS[func](self.read[name])
        return func(*args, **(kwargs or {}))

    def check(self, program: torch.export.ExportedProgram) -> None:
        """ValueError: the program changes what it was made for."""
        signature = program.run_decompositions({}).graph_signature
        changed = sorted(self.read.keys() & signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(f"forward() changes {', '.join(changed)}, which Python reads in it")
