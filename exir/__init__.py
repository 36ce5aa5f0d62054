"""Lowers PyTorch programs to files that the runtime runs.

    program = torch.export.export(model.eval(), (x,))
    lowered = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner()])
    lowered.to_executorch().save("model.pte")

Names are imported on first use, so that `import pteron.exir` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pteron.exir.config import EdgeCompileConfig, ExecutorchBackendConfig
    from pteron.exir.graph.lowered_backend_module import LoweredBackendModule
    from pteron.exir.passes.memory_planning import MemoryPlanningPass
    from pteron.exir.program import (
        EdgeProgramManager,
        ExecutorchProgramManager,
        to_edge,
        to_edge_transform_and_lower,
    )
    from pteron.exir.undelegated import UnsupportedOperatorsError
    from pteron.exir.verification.verify import VerificationError

_HOME = {
    "EdgeCompileConfig": "pteron.exir.config",
    "EdgeProgramManager": "pteron.exir.program",
    "ExecutorchBackendConfig": "pteron.exir.config",
    "ExecutorchProgramManager": "pteron.exir.program",
    "LoweredBackendModule": "pteron.exir.graph.lowered_backend_module",
    "MemoryPlanningPass": "pteron.exir.passes.memory_planning",
    "UnsupportedOperatorsError": "pteron.exir.undelegated",
    "VerificationError": "pteron.exir.verification.verify",
    "to_edge": "pteron.exir.program",
    "to_edge_transform_and_lower": "pteron.exir.program",
}

__all__ = [
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "LoweredBackendModule",
    "MemoryPlanningPass",
    "UnsupportedOperatorsError",
    "VerificationError",
    "to_edge",
    "to_edge_transform_and_lower",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
