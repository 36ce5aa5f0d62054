"""Rewrites of programs, one a file."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "MemoryPlanningPass":  # where ExecuTorch has it
        from pteron.exir.memory_planning import MemoryPlanningPass

        return MemoryPlanningPass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
