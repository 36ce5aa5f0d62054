"""The Metal backend: what to import to lower a model for an Apple GPU.

    from pteron.backends.apple.metal import MetalOptions, MetalPartitioner

Names are imported on first use, so that finding the native library does not import torch.
"""

import importlib
from typing import Any

_HOME = {
    "MetalBackend": "pteron.backends.apple.metal.metal_backend",
    "MetalOptions": "pteron.backends.apple.metal.metal_options",
    "MetalPartitioner": "pteron.backends.apple.metal.metal_partitioner",
}

__all__ = ["MetalBackend", "MetalOptions", "MetalPartitioner"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
