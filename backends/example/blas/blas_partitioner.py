"""Takes matrix products for the BLAS backend and leaves everything else.

to_edge_transform_and_lower(program, partitioner=[BlasPartitioner(), CpuPartitioner()])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from pteron.backends.example.blas.blas_backend import BlasBackend
from pteron.backends.example.blas.blas_options import BlasOptions
from pteron.backends.example.blas.op_support import OpSupport, is_product, reason
from pteron.exir.backend.partitioner import (
    DELEGATION_TAG,
    LEFT_OUT_REASON,
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from pteron.exir.backend.utils import get_non_lowered_nodes, tag_constant_data, tag_mutated_buffer


@final
class BlasPartitioner(Partitioner):
    """One partition for products that feed each other with nothing else between.

    Args:
        options: `BlasOptions`; the defaults if left out.
    """

    def __init__(self, options: BlasOptions | None = None) -> None:
        specs = (options or BlasOptions()).to_compile_specs()
        self._delegation = DelegationSpec(BlasBackend.__name__, specs)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Keeps linear, which shows the weight as the model has it, where it is ours to run."""
        return [torch.ops.aten.linear.default], lambda node: reason(node) is None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        free = get_non_lowered_nodes(exported_program.graph)
        position = {node: index for index, node in enumerate(free)}
        islands = CapabilityBasedPartitioner(
            exported_program.graph_module, OpSupport(free), allows_single_node_partition=True
        ).propose_partitions()
        groups = [sorted(island.nodes, key=position.__getitem__) for island in islands]
        tags = {}
        for index, nodes in enumerate(sorted(groups, key=lambda nodes: position[nodes[0]])):
            tags[f"blas_{index}"] = self._delegation
            for node in nodes:
                node.meta[DELEGATION_TAG] = f"blas_{index}"
        for node in free:
            if is_product(node) and (why := reason(node)) is not None:
                node.meta[LEFT_OUT_REASON] = why
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)
