"""Backends in pure Python: they "compile" a program by memoizing it.

`GraphBackend` and `OtherBackend` differ in name alone, so that tests can stack two of them.
`OpsPartitioner` takes the operators it is told, in convex islands.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Interpreter, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from pteron.exir.backend.utils import get_non_lowered_nodes, tag_constant_data
from pteron.exir.graph.exported_program import constant_tensor
from pteron.exir.tests.interpreter import DelegateFunction, Slot

_programs: dict[bytes, ExportedProgram] = {}


def _compile(program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
    """Memoizes a program under the digest of its text and its constants, and stores those."""
    store = NamedDataStore()
    digest = hashlib.sha256(program.graph_module.code.encode())
    digest.update(str(program.graph_signature).encode())
    external = next((s.value.decode() for s in specs if s.key == "external_tag"), None)
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            blob = Blob(constant_tensor(program, spec))
            digest.update(blob.digest)
            store.add_named_data(
                f"{blob.digest.hex()}_weight", blob.data, 64, external, digest=blob.digest
            )
    key = digest.hexdigest().encode()
    _programs[key] = program
    return PreprocessResult(key, data_store_output=store.get_named_data_store_output())


class GraphBackend(BackendDetails):
    """Runs a partition by interpreting its graph."""

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        return _compile(edge_program, compile_specs)


class OtherBackend(BackendDetails):
    """The same under another name."""

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        return _compile(edge_program, compile_specs)


def run_delegate(
    backend_id: str, processed: bytes, specs: list[schema.CompileSpec]
) -> DelegateFunction:
    """The run-time half: inputs then outputs, state written in place."""
    program = _programs[processed]
    constants = [
        constant_tensor(program, spec)
        for spec in program.graph_signature.input_specs
        if spec.kind is not InputKind.USER_INPUT
    ]
    inputs = [s.arg.name for s in program.graph_signature.input_specs[len(constants) :]]

    def run(values: list[Any], slots: list[Slot]) -> None:
        given, outputs = values[: len(inputs)], slots[len(inputs) :]
        # Copies: a delegate may not rely on inputs and outputs being apart from its own work.
        copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in given]
        with torch.no_grad():
            results = Interpreter(program.graph_module).run(
                *[constant.detach() for constant in constants], *copies
            )
        free = iter(outputs)
        for spec, result in zip(program.graph_signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                assert spec.target is not None
                slots[inputs.index(spec.target)].write(result)
            elif isinstance(result, torch.Tensor):
                next(free).write(result)
            else:
                next(free).value = result  # type: ignore[attr-defined] # of a number
        assert next(free, None) is None

    return run


class _Support(OperatorSupportBase):
    def __init__(self, wants: Callable[[Node], bool], nodes: set[Node]) -> None:
        self._wants = wants
        self._nodes = nodes

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return node in self._nodes and self._wants(node)


class OpsPartitioner(Partitioner):
    """Takes calls of some operators, or all but some, or those that a function chooses."""

    def __init__(
        self,
        ops: Iterable[OpOverload] | None = None,
        *,
        but: Iterable[OpOverload] = (),
        choose: Callable[[Node], bool] | None = None,
        backend: str = "GraphBackend",
        specs: Sequence[CompileSpec] = (),
        whole: bool = False,
        prefix: str = "part",
    ) -> None:
        wanted, unwanted = None if ops is None else set(ops), set(but)

        def by_op(node: Node) -> bool:
            return node.target not in unwanted and (wanted is None or node.target in wanted)

        self._choose = choose or by_op
        self._spec = DelegationSpec(backend, list(specs))
        self._whole = whole
        self._prefix = prefix

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        nodes = set(get_non_lowered_nodes(exported_program.graph))
        partitions = CapabilityBasedPartitioner(
            exported_program.graph_module,
            _Support(self._choose, nodes),
            allows_single_node_partition=True,
        ).propose_partitions()
        order = {node: index for index, node in enumerate(exported_program.graph.nodes)}
        partitions.sort(key=lambda p: min(order[node] for node in p.nodes))
        tags = {}
        for index, partition in enumerate(partitions):
            tag = f"{self._prefix}{index}"
            tags[tag] = self._spec
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[OpOverload], Callable[[Node], bool] | None]:
        if not self._whole:
            return [], None
        return [n.target for n in ep.graph.nodes if n.op == "call_function"], None
