"""Loads and runs programs, without torch.

    from pteron.runtime import Runtime

    method = Runtime.get().load_program("model.pte").load_method("forward")
    outputs = method.execute([x])

Inputs may be torch tensors, NumPy arrays or anything with DLPack or the buffer protocol; outputs
are of the library of the first input tensor. torch is used only if the caller has imported it.
"""

from __future__ import annotations

import sys

if "t" in sys.abiflags:  # objects are laid out otherwise: the binding would crash
    raise ImportError(
        f"this Python {sys.version_info.major}.{sys.version_info.minor} is free-threaded, and "
        "pteron's binding is compiled for Pythons with a global interpreter lock. Use the same "
        "version's regular build, whose sys.abiflags has no t."
    )

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any

    from pteron.runtime.python.backend_registry import BackendRegistry, load_operators
    from pteron.runtime.python.errors import (
        AccessError,
        BackendError,
        CancelledError,
        InvalidArgumentError,
        InvalidProgramError,
        InvalidStateError,
        NotFoundError,
        NotSupportedError,
        PteronError,
        ResourceError,
        TimedOutError,
    )
    from pteron.runtime.python.limits import Limits
    from pteron.runtime.python.load_policy import LoadPolicy
    from pteron.runtime.python.method import Method
    from pteron.runtime.python.method_meta import MethodMeta, ScalarMeta, TensorInfo
    from pteron.runtime.python.profile import Profile
    from pteron.runtime.python.program import Program
    from pteron.runtime.python.runtime import Runtime
    from pteron.runtime.python.scalar_type import ScalarType
    from pteron.runtime.python.session import Session
    from pteron.runtime.python.verification import Verification

__all__ = [
    "AccessError",
    "BackendError",
    "BackendRegistry",
    "CancelledError",
    "InvalidArgumentError",
    "InvalidProgramError",
    "InvalidStateError",
    "Limits",
    "LoadPolicy",
    "Method",
    "MethodMeta",
    "NotFoundError",
    "NotSupportedError",
    "Profile",
    "Program",
    "PteronError",
    "ResourceError",
    "Runtime",
    "ScalarMeta",
    "ScalarType",
    "Session",
    "TensorInfo",
    "TimedOutError",
    "Verification",
    "load_operators",
]

# Modules of pteron.runtime.python for names that differ from their lower-case form.
_MODULES = {
    "BackendRegistry": "backend_registry",
    "LoadPolicy": "load_policy",
    "MethodMeta": "method_meta",
    "ScalarMeta": "method_meta",
    "ScalarType": "scalar_type",
    "TensorInfo": "method_meta",
    "load_operators": "backend_registry",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = "errors" if name.endswith("Error") else _MODULES.get(name, name.lower())
    value = getattr(importlib.import_module(f"pteron.runtime.python.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
