"""The partitioner of the CUDA backend.

to_edge_transform_and_lower(program, partitioner=[CudaPartitioner()])
"""

from collections.abc import Iterable
from typing import final

from pteron.backends.aoti.aoti_partitioner import AotiPartitioner
from pteron.backends.aoti.op_support import LeaveOut
from pteron.backends.cuda.cuda_backend import CudaBackend
from pteron.backends.cuda.cuda_options import CudaOptions
from pteron.backends.cuda.division_checks import check_divisions
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.passes.pass_base import Pass


@final
class CudaPartitioner(AotiPartitioner):
    """A partitioner with the CUDA backend's options. Needs no GPU.

    Args:
        options: `CudaOptions`, or their compile specs, with or without
            `CudaBackend.generate_method_name_compile_spec(name)`; defaults if omitted.
        leave_out: operators to leave to another partitioner; see `op_support.LeaveOut`. Operators
            that no partitioner takes are compiled for the CPU.
    """

    def __init__(
        self,
        options: CudaOptions | Iterable[CompileSpec] | None = None,
        *,
        leave_out: LeaveOut = (),
    ) -> None:
        specs = CudaOptions.specs_of(options)
        super().__init__(CudaBackend.__name__, specs, leave_out=leave_out)

    def passes(self) -> list[Pass]:
        return [check_divisions]
