"""Program passes, one per file."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "MemoryPlanningPass":  # ExecuTorch's import path
        from pteron.exir.memory_planning import MemoryPlanningPass

        return MemoryPlanningPass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
