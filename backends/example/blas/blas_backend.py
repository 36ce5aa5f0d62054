"""The BLAS backend's lowering half: a matmul becomes a plan and its weights."""

from typing import Any, final

import flatbuffers
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

import pteron.backends.example.blas.schema.plan_generated as schema
from pteron.exir._serialize.blob import Blob
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec

aten = torch.ops.aten

PRODUCTS = (aten.linear.default, aten.addmm.default, aten.mm.default)
"""The operators that a plan can express."""

_WEIGHT_ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def operands(node: Node) -> tuple[Any, Any, Any]:
    """lhs, rhs and addend (or None) of a matmul."""
    if node.target is aten.addmm.default:
        bias, left, right = node.args
    else:
        left, right, bias = (*node.args, None)[:3]
    return left, right, bias


@final
class BlasBackend(BackendDetails):
    """Runs matmuls with OpenBLAS. The class name is the id in the file."""

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        options = {spec.key: spec.value.decode() for spec in compile_specs}
        builder = _PlanBuilder(edge_program, options["external_tag"] or None)
        (product,) = (node for node in edge_program.graph.nodes if node.op == "call_function")
        plan = builder.build(product)
        buffer = flatbuffers.Builder(1024)
        buffer.Finish(plan.Pack(buffer), file_identifier=b"PTB1")
        return PreprocessResult(
            processed_bytes=bytes(buffer.Output()),
            data_store_output=builder.weights.get_named_data_store_output(),
        )


class _PlanBuilder:
    def __init__(self, program: ExportedProgram, external_tag: str | None) -> None:
        self.weights = NamedDataStore()
        self._external_tag = external_tag
        self._outputs = program.graph_signature.output_specs
        self._arguments: dict[str, int] = {}
        self._owned: dict[str, torch.Tensor] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                self._arguments[spec.arg.name] = len(self._arguments)
            else:
                held = spec.target in program.state_dict
                tensors = program.state_dict if held else program.constants
                self._owned[spec.arg.name] = tensors[spec.target]

    def build(self, product: Node) -> schema.PlanT:
        left, right, bias = operands(product)
        plan = schema.PlanT()
        plan.left = self._operand(left)
        # BLAS supports both layouts but is fastest with contiguous rows. A constant weight [N, K]
        # of linear is transposed once, here; a weight that is an argument is not.
        is_linear = product.target is aten.linear.default
        plan.rightTransposed = is_linear and right.name in self._arguments
        plan.right = self._operand(right, transposed=is_linear and right.name in self._owned)
        plan.bias = self._operand(bias) if bias is not None else None
        plan.numInputs = count = len(self._arguments)
        plan.stores = []
        for spec in self._outputs:
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                plan.stores.append(self._arguments[spec.target])
            else:
                plan.stores.append(count)
                count += 1
        return plan

    def _operand(self, node: Node, *, transposed: bool = False) -> schema.OperandT:
        operand = schema.OperandT()
        if node.name in self._arguments:
            operand.argument = self._arguments[node.name]
            return operand
        tensor = self._owned[node.name].detach()
        tensor = (tensor.t() if transposed else tensor).cpu().contiguous()
        operand.weight = schema.WeightT()
        operand.weight.key = f"{Blob(tensor).digest.hex()}_blas_weight"
        operand.weight.sizes = list(tensor.shape)
        self.weights.add_named_data(
            operand.weight.key, tensor, _WEIGHT_ALIGNMENT, external_tag=self._external_tag
        )
        return operand
