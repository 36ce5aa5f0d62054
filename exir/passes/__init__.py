"""Rewrites of programs, one a file. Names are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "DecomposeLeftovers": "pteron.exir.passes.decompose_leftovers",
    "MemoryPlanningPass": "pteron.exir.memory_planning",
    "PassBase": "pteron.exir.passes.pass_base",
    "PassResult": "pteron.exir.passes.pass_base",
    "ProgramPass": "pteron.exir.passes.pass_base",
    "RemoveAsserts": "pteron.exir.passes.remove_asserts",
    "ResolveMutations": "pteron.exir.passes.resolve_mutations",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
