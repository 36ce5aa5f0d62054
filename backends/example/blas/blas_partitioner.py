"""The partitioner of the BLAS backend: takes matmuls.

to_edge_transform_and_lower(program, partitioner=[BlasPartitioner(), CpuPartitioner()])
"""

from collections.abc import Callable
from typing import Any, final

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.example.blas.blas_backend import PRODUCTS, BlasBackend, operands
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.partitioner import (
    DELEGATION_TAG,
    LEFT_OUT_REASON,
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from pteron.exir.backend.utils import get_non_lowered_nodes, tag_constant_data, tag_mutated_buffer
from pteron.exir.graph.tensor_layout import dim_order_of


def reason(node: Node) -> str | None:
    """Why a matmul is not supported; None if it is."""
    for tensor in (*node.all_input_nodes, node):
        value = tensor.meta["val"]
        if value.dtype is not torch.float32:
            return f"{tensor.name} is {value.dtype}; BlasBackend multiplies torch.float32"
        if dim_order_of(value) != list(range(value.dim())):
            return f"{tensor.name} is not row-major"
    if any(scale != 1 for scale in node.kwargs.values()):
        return f"{node.name} has alpha or beta; BlasBackend supports neither"
    _, right, bias = (operand and operand.meta["val"] for operand in operands(node))
    if right.dim() != 2:
        return f"the weight of {node.name} is not a matrix"
    if bias is not None and not _is_row(bias, node.meta["val"].shape[-1]):
        return f"{node.name} adds a tensor of shape {tuple(bias.shape)}; BlasBackend adds a row"
    return None


def _is_row(bias: torch.Tensor, columns: Any) -> bool:
    return bias.dim() == 1 and statically_known_true(bias.shape[0] == columns)


@final
class BlasPartitioner(Partitioner):
    """Each matmul becomes a delegate.

    Args:
        external_tag: weights go to the file `<external_tag>.ptd`; "" keeps them in the program.
    """

    def __init__(self, external_tag: str = "") -> None:
        specs = [CompileSpec("external_tag", external_tag.encode())]
        self._delegation = DelegationSpec(BlasBackend.__name__, specs)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Keeps linear undecomposed where supported, to see the weight in the model's layout."""
        return [torch.ops.aten.linear.default], lambda node: reason(node) is None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags: dict[str, DelegationSpec] = {}
        for node in get_non_lowered_nodes(exported_program.graph):
            if node.target not in PRODUCTS:
                continue
            if (why := reason(node)) is None:
                node.meta[DELEGATION_TAG] = f"blas_{len(tags)}"
                tags[f"blas_{len(tags)}"] = self._delegation
            else:
                node.meta[LEFT_OUT_REASON] = why
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)
