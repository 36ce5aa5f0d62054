"""Registers the CPU backend for operators that no partitioner took; imported by `exir` on
demand."""

from collections.abc import Sequence

from pteron.backends.cpu.cpu_backend import CpuBackend
from pteron.backends.cpu.cpu_options import CpuOptions
from pteron.backends.cpu.cpu_partitioner import CpuPartitioner
from pteron.exir.backend.leftovers import register_leftover_partitioner
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule


def leftover_partitioner(lowered: Sequence[LoweredBackendModule]) -> CpuPartitioner:
    """Uses the options of the program's first CPU delegate, or the defaults."""
    specs = [m.compile_specs for m in lowered if m.backend_id == CpuBackend.__name__]
    return CpuPartitioner(CpuOptions.from_compile_specs(specs[0]) if specs else None)


register_leftover_partitioner(leftover_partitioner)
