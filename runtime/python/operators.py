"""Operators of one's own, whose C functions are in shared libraries."""

from __future__ import annotations

import os

import pteron.runtime.python._native as _native
from pteron.runtime.python.backend_registry import require


def load_operators(path: str | os.PathLike[str]) -> None:
    """Opens a shared library with C functions of operators, for programs that are loaded after it.

    The functions are those of `backends/aoti/shims/operators.h`. The library stays open. Programs
    cannot name a library.

    Args:
      path: with a folder, or a name that the dynamic linker searches for.

    Raises:
      AccessError: the library cannot be opened; the message says why.
    """
    require(["CpuBackend"])  # with the functions that those of an operator call
    _native.open_library(os.fsencode(path), operators=True)
