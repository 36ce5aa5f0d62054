"""Memory planning, by ExecuTorch's name."""

from pteron.exir.passes.memory_planning import (
    ALIGNMENT,
    Lifetime,
    MemoryPlanningPass,
    plan_greedy,
    plan_side_by_side,
)

__all__ = ["ALIGNMENT", "Lifetime", "MemoryPlanningPass", "plan_greedy", "plan_side_by_side"]
