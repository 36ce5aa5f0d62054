"""The partitioner of the CPU backend.

to_edge_transform_and_lower(program, partitioner=[CpuPartitioner()])
"""

from collections.abc import Iterable
from typing import final

from pteron.backends.aoti.aoti_partitioner import AotiPartitioner
from pteron.backends.aoti.op_support import LeaveOut
from pteron.backends.cpu.cpu_backend import CpuBackend
from pteron.backends.cpu.cpu_options import CpuOptions
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class CpuPartitioner(AotiPartitioner):
    """A partitioner with the CPU backend's options.

    Args:
        options: `CpuOptions`, or their compile specs, with or without
            `CpuBackend.generate_method_name_compile_spec(name)`; defaults if omitted.
        leave_out: operators to leave to another partitioner; see `op_support.LeaveOut`. Operators
            that no partitioner takes are compiled in separate partitions.
    """

    def __init__(
        self,
        options: CpuOptions | Iterable[CompileSpec] | None = None,
        *,
        leave_out: LeaveOut = (),
    ) -> None:
        specs = CpuOptions.specs_of(options)
        super().__init__(CpuBackend.__name__, specs, leave_out=leave_out)
