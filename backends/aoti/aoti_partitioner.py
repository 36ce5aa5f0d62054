"""Partitions a program for an AOTI backend: all supported nodes, in as few partitions as possible.

    partitioner = AotiPartitioner("CpuBackend", CpuOptions().to_compile_specs())

If all nodes are supported, they are one partition. Otherwise they are split into convex partitions,
since a partition becomes one call: no path may leave it and return. Delegates of earlier
partitioners split partitions, and so do operators without a runtime function, which are left out
with a warning.
"""

import operator
import warnings
from collections.abc import Callable, Iterable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pteron.backends.aoti import inductor, toolchain
from pteron.backends.aoti.aoti_backend import AotiBackend
from pteron.backends.aoti.lowering_cache import Facts, Unknown
from pteron.backends.aoti.op_support import SYMBOLIC, LeaveOut, OpSupport
from pteron.backends.aoti.ops.attention.attention import WHOLE
from pteron.backends.aoti.passes.recurrent import whole_layers
from pteron.exir.backend.backend_details import find_backend
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.partitioner import (
    DELEGATION_TAG,
    LEFT_OUT_REASON,
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from pteron.exir.backend.utils import get_non_lowered_nodes, tag_constant_data, tag_mutated_buffer
from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import (
    CONSTANT_KINDS,
    input_specs_by_name,
    mutation_targets,
    source_line,
)


class LeftOutWarning(UserWarning):
    """Warns that the requested backend does not support some operators."""


class AotiPartitioner(Partitioner):
    """See the module's docstring.

    Args:
        backend_id: class name of an imported backend that derives from `AotiBackend`.
        compile_specs: its options, checked here rather than during lowering.
        leave_out: operators to leave to other partitioners; see `op_support.LeaveOut`.
        ops_to_not_decompose: operators to keep whole, besides attention and recurrent layers, until
            Inductor gets them.

    Raises:
        UnsupportedTorch: lowering does not work with the installed torch.
    """

    def __init__(
        self,
        backend_id: str,
        compile_specs: Iterable[CompileSpec] = (),
        *,
        leave_out: LeaveOut = (),
        ops_to_not_decompose: Iterable[torch._ops.OpOverload] = (),
    ) -> None:
        backend = find_backend(backend_id)
        if not issubclass(backend, AotiBackend):
            raise TypeError(f"{backend_id} does not derive from AotiBackend")
        inductor.release()  # or UnsupportedTorch, before anybody exports anything
        self._specs = list(compile_specs)
        self._delegation = DelegationSpec(backend_id, self._specs)
        self._device = backend.get_device_name()
        self._target = backend.get_build_target(backend.get_options(self._specs)).code
        self._shims = frozenset(backend.get_supported_fallback_kernels())
        self._leave_out = leave_out
        self._ops_to_not_decompose = list(ops_to_not_decompose)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        layers = whole_layers(ep, self._device, self._shims)
        return [*WHOLE, *layers, *self._ops_to_not_decompose], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        facts = self._known_facts()
        support = OpSupport(self._target, self._shims, self._leave_out, facts)
        tags: dict[str, DelegationSpec] = {}
        for nodes in self._convex_sets(exported_program, support):
            tag = f"{self._device}_{len(tags)}"
            tags[tag] = self._delegation
            for node in nodes:
                node.meta[DELEGATION_TAG] = tag
                for argument in node.all_input_nodes:
                    if argument.op == "get_attr":
                        argument.meta[DELEGATION_TAG] = tag
        if tags:
            tag_constant_data(exported_program)
            tag_mutated_buffer(exported_program)
            _tag_unused_constants(exported_program, next(iter(tags)))
        self._warn(exported_program, support)
        if facts is not None:
            facts.save()
        return PartitionResult(exported_program, tags)

    def _known_facts(self) -> Facts | None:
        """None where lowering may depend on what is not in the key: GPUs, changes of Inductor."""
        if self._device == "cuda":
            return None
        try:
            return Facts(toolchain.shared_cache(), [repr(self._target)])
        except Unknown:
            return None

    def _convex_sets(
        self, program: ExportedProgram, support: OpSupport
    ) -> list[list[torch.fx.Node]]:
        """Sets of nodes to take, in graph order."""
        taken = {node for node in _supported_nodes(program) if support.reason(node) is None}
        sets = _stages(program.graph, taken)
        return [nodes for nodes in sets if any(_computes(node) for node in nodes)]

    def _warn(self, program: ExportedProgram, support: OpSupport) -> None:
        lines = []
        for node in _supported_nodes(program):
            reason = support.reason(node)
            if reason is None:
                continue
            node.meta[LEFT_OUT_REASON] = reason
            if node.target is not operator.getitem:
                line = source_line(node)
                lines.append(f"  {node.name}{f' ({line})' if line else ''}: {reason}")
        if lines:
            warnings.warn(
                f"{self._delegation.backend_id} leaves {len(lines)} operators out:\n"
                + "\n".join(lines),
                LeftOutWarning,
                stacklevel=3,
            )


def _stages(graph: torch.fx.Graph, taken: set[torch.fx.Node]) -> list[list[torch.fx.Node]]:
    """`taken` in the fewest convex sets, in graph order, of which no two need each other: by the
    most changes from other nodes to taken ones on a path from a node to the end. An element of a
    tuple is with the tuple."""
    stages: dict[torch.fx.Node, int] = {}
    for node in reversed(graph.nodes):
        stages[node] = max(
            (stages[user] + (node not in taken and user in taken) for user in node.users), default=0
        )
    sets: dict[int, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node not in taken:
            continue
        if node.target is operator.getitem and (source := node.all_input_nodes[0]) in taken:
            stages[node] = stages[source]
        sets.setdefault(stages[node], []).append(node)
    return [sets[stage] for stage in sorted(sets, reverse=True)]


def _supported_nodes(program: ExportedProgram) -> Iterable[torch.fx.Node]:
    for node in get_non_lowered_nodes(program.graph):
        if kernels.ON_HOST not in node.meta:
            yield node


def _computes(node: torch.fx.Node) -> bool:
    """Whether `node` returns a tensor, or a scalar for which the runtime has no kernel."""
    values = node.meta.get("val")
    values = values if isinstance(values, tuple | list) else (values,)
    if all(isinstance(value, SYMBOLIC) for value in values):
        return not kernels.is_executable(node)
    return any(isinstance(value, torch.Tensor) for value in values)


def _tag_unused_constants(program: ExportedProgram, tag: str) -> None:
    """Unused constants go to the first partition, which drops them."""
    specs = input_specs_by_name(program)
    mutated = {name for _, name in mutation_targets(program)}
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.users or node.name in mutated:
            continue
        if specs[node.name].kind in CONSTANT_KINDS or (
            specs[node.name].kind is InputKind.CUSTOM_OBJ
        ):
            node.meta[DELEGATION_TAG] = tag
