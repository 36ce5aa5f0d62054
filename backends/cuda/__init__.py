"""The CUDA backend: what to import to lower a model for an NVIDIA GPU.

    from pteron.backends.cuda import CudaOptions, CudaPartitioner

Names are imported on first use, so that finding the native library does not import torch.
"""

import importlib
from typing import Any

_HOME = {
    "AutotuneRecord": "pteron.backends.cuda.autotune_record",
    "CudaBackend": "pteron.backends.cuda.cuda_backend",
    "CudaOptions": "pteron.backends.cuda.cuda_options",
    "CudaPartitioner": "pteron.backends.cuda.cuda_partitioner",
}

__all__ = ["AutotuneRecord", "CudaBackend", "CudaOptions", "CudaPartitioner"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
