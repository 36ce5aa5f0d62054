"""The BLAS backend: matrix products by OpenBLAS, and how to write a backend (see README.md).

    from pteron.backends.example.blas import BlasOptions, BlasPartitioner

Names are loaded when they are used, so that finding the native library imports no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "BlasBackend": "pteron.backends.example.blas.blas_backend",
    "BlasOptions": "pteron.backends.example.blas.blas_options",
    "BlasPartitioner": "pteron.backends.example.blas.blas_partitioner",
}

__all__ = ["BlasBackend", "BlasOptions", "BlasPartitioner"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
