"""Lowered partitions, by ExecuTorch's name."""

from pteron.exir.graph.lowered_backend_module import LoweredBackendModule

__all__ = ["LoweredBackendModule"]
