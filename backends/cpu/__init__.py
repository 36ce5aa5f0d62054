"""The CPU backend: what to import to lower a model for a CPU.

    from pteron.backends.cpu import CpuOptions, CpuPartitioner

Names are imported on first use, so that finding the native library does not import torch.
"""

import importlib
from typing import Any

_HOME = {
    "CpuBackend": "pteron.backends.cpu.cpu_backend",
    "CpuOptions": "pteron.backends.cpu.cpu_options",
    "CpuPartitioner": "pteron.backends.cpu.cpu_partitioner",
}

__all__ = ["CpuBackend", "CpuOptions", "CpuPartitioner"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
