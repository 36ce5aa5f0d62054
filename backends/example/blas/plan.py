"""From a partition to a plan: what a BLAS delegate runs (schema/plan.fbs).

made = build(edge_program)
made.processed_bytes        # the plan, for the runtime half
made.weights                # key -> tensor, for the named data
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

import pteron.backends.example.blas.schema.plan_generated as schema
from pteron.exir._serialize.blob import Blob

aten = torch.ops.aten

WEIGHT_ALIGNMENT = 64
"""Of a weight's first byte, in bytes: a cache line, and the widest vector there is."""

_FILE_IDENTIFIER = b"PTB1"


@dataclasses.dataclass(frozen=True)
class BuiltPlan:
    """A plan and the weights that it names.

    Attributes:
        processed_bytes: the plan, serialized.
        weights: contiguous float32 tensors, in the layout that the delegate multiplies, by keys
            derived from their bytes: equal weights have equal keys, in any partition or method.
    """

    processed_bytes: bytes
    weights: Mapping[str, torch.Tensor]


def build(program: ExportedProgram) -> BuiltPlan:
    """Translates a partition that consists of the operators of `op_support.PRODUCTS`."""
    builder = _Builder(program)
    for node in program.graph.nodes:
        if node.op == "call_function":
            builder.add_product(node)
    builder.add_stores()
    buffer = flatbuffers.Builder(1024)
    buffer.Finish(builder.plan.Pack(buffer), file_identifier=_FILE_IDENTIFIER)
    return BuiltPlan(bytes(buffer.Output()), builder.weights)


def describe(processed_bytes: bytes) -> dict[str, str]:
    """What a plan holds, human-readable."""
    plan = schema.PlanT.InitFromPackedBuf(processed_bytes, 0)
    weights = ["x".join(str(size) for size in constant.sizes) for constant in plan.constants]
    return {"products": str(len(plan.products)), "weights": ", ".join(weights) or "none"}


class _Builder:
    def __init__(self, program: ExportedProgram) -> None:
        self.plan = _table(schema.PlanT, constants=[], products=[], stores=[])
        self.weights: dict[str, torch.Tensor] = {}
        self._program = program
        self._owned: dict[str, torch.Tensor] = {}
        self._arguments: dict[str, int] = {}
        self._products: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...]], int] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                self._arguments[spec.arg.name] = len(self._arguments)
            else:
                held = spec.target in program.state_dict
                tensors = program.state_dict if held else program.constants
                self._owned[spec.arg.name] = tensors[spec.target]
        self.plan.numInputs = len(self._arguments)

    def add_product(self, node: Node) -> None:
        """product = alpha * left @ right + beta * bias"""
        product = schema.ProductT()
        arguments: Sequence[Any] = node.args
        scales: Mapping[str, Any] = node.kwargs
        if node.target is aten.linear.default:
            left, right, *bias = arguments
            product.bias = self._operand(bias[0]) if bias and bias[0] is not None else None
            # BLAS reads a matrix either way, but rows that lie one after the other fastest. The
            # weight [N, K] of linear is turned once, here; one that comes as an argument is not.
            product.rightTransposed = right.name not in self._owned
            product.right = self._operand(right, transposed=not product.rightTransposed)
        else:
            *bias, left, right = arguments
            if node.target is aten.addmm.default:
                product.bias = self._operand(bias[0])
                product.alpha = float(scales.get("alpha", 1))
                product.beta = float(scales.get("beta", 1))
            elif node.target not in (aten.mm.default, aten.bmm.default):
                raise ValueError(f"{node.name}: {node.target} is not a product")
            product.right = self._operand(right)
        product.left = self._operand(left)
        self._products[node.name] = len(self.plan.products)
        self.plan.products.append(product)

    def add_stores(self) -> None:
        """Where results go: outputs follow the inputs; new state goes into the input it is of."""
        outputs = self._program.graph_signature.output_specs
        count = len(self._arguments)
        for spec in outputs:
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                argument = self._arguments[spec.target]
            else:
                argument, count = count, count + 1
            product = self._products[spec.arg.name]
            self.plan.stores.append(_table(schema.StoreT, product=product, argument=argument))

    def _operand(self, node: Any, *, transposed: bool = False) -> schema.OperandT:
        if node.name in self._arguments:
            source, index = schema.Source.Argument, self._arguments[node.name]
        elif node.name in self._products:
            source, index = schema.Source.Product, self._products[node.name]
        else:
            tensor = self._owned[node.name].detach()
            source, index = schema.Source.Constant, self._constant(tensor, transposed)
        return _table(schema.OperandT, source=source, index=index)

    def _constant(self, tensor: torch.Tensor, transposed: bool) -> int:
        tensor = (tensor.t() if transposed else tensor).cpu().contiguous()
        key = f"{Blob(tensor).digest.hex()}_blas_weight"
        self.weights[key] = tensor
        index = self._constants.setdefault((key, tuple(tensor.shape)), len(self._constants))
        if index == len(self.plan.constants):
            sizes = list(tensor.shape)
            self.plan.constants.append(_table(schema.ConstantT, key=key, sizes=sizes))
        return index


def _table(kind: type[Any], **fields: Any) -> Any:
    """An object of the schema with these fields."""
    table = kind()
    for name, value in fields.items():
        setattr(table, name, value)
    return table
