"""The partitioner of the Metal backend.

to_edge_transform_and_lower(program, partitioner=[MetalPartitioner()])
"""

from collections.abc import Iterable
from typing import final

from pteron.backends.aoti.aoti_partitioner import AotiPartitioner
from pteron.backends.aoti.op_support import LeaveOut
from pteron.backends.apple.metal.metal_backend import MetalBackend
from pteron.backends.apple.metal.metal_options import MetalOptions
from pteron.exir.backend.compile_spec_schema import CompileSpec


@final
class MetalPartitioner(AotiPartitioner):
    """A partitioner with the Metal backend's options. Needs no Mac.

    Args:
        options: `MetalOptions`, or their compile specs, with or without
            `MetalBackend.generate_method_name_compile_spec(name)`; defaults if omitted.
        leave_out: operators to leave to another partitioner; see `op_support.LeaveOut`. Operators
            that no partitioner takes are compiled for the CPU.
    """

    def __init__(
        self,
        options: MetalOptions | Iterable[CompileSpec] | None = None,
        *,
        leave_out: LeaveOut = (),
    ) -> None:
        specs = MetalOptions.specs_of(options)
        super().__init__(MetalBackend.__name__, specs, leave_out=leave_out)
