"""Program passes, one per file."""

from pteron.exir.passes.memory_planning import MemoryPlanningPass

__all__ = ["MemoryPlanningPass"]
