"""Takes for the CUDA backend whatever it can take.

to_edge_transform_and_lower(program, partitioner=[CudaPartitioner()])
"""

from collections.abc import Iterable
from typing import final

from pteron.backends.aoti.aoti_partitioner import AotiPartitioner
from pteron.backends.aoti.op_support import LeaveOut
from pteron.backends.cuda.cuda_backend import CudaBackend
from pteron.backends.cuda.cuda_options import CudaOptions
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class CudaPartitioner(AotiPartitioner):
    """A partitioner with the CUDA backend's options. Needs no GPU.

    Args:
        options: `CudaOptions`, or compile specs made of them; the defaults if left out.
        leave_out: operators to leave to another partitioner; see `op_support.LeaveOut`. What nobody
            takes is compiled for the CPU.
    """

    def __init__(
        self,
        options: CudaOptions | Iterable[CompileSpec] | None = None,
        *,
        leave_out: LeaveOut = (),
    ) -> None:
        if options is None:
            options = CudaOptions()
        elif not isinstance(options, CudaOptions):
            options = CudaOptions.from_compile_specs(options)
        super().__init__(CudaBackend.__name__, options.to_compile_specs(), leave_out=leave_out)
