"""Scalar types of programs, by ExecuTorch's name."""

from pteron.exir.graph.scalar_types import ScalarType

__all__ = ["ScalarType"]
