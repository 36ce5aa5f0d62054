"""Checks of exported programs for likely errors."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.exir.backend.backend_details import imported_backend
from pteron.exir.graph.exported_program import argument_name, constant_tensor, input_specs_by_name
from pteron.exir.graph.lowered_backend_module import lowered_modules

_LOG = logging.getLogger(__name__)


def warn_of_training(program: ExportedProgram, method: str) -> None:
    """Logs a warning if a program was exported in training mode."""
    calls = sorted({str(node.target) for node in program.graph.nodes if _is_training(node)})
    if calls:
        _LOG.warning(
            "method %r was exported in training mode: %s drop values at random or update statistics"
            " in each call. If this is not intended, call model.eval() before torch.export.export",
            method,
            ", ".join(calls),
        )


def warn_of_joined_inputs(program: ExportedProgram, method: str) -> None:
    """Logs a warning if torch.export made one of inputs for which the caller gave one tensor."""
    given: list[Any] = pytree.tree_leaves(program.example_inputs or ())
    names = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    unused = {node.name for node in program.graph.nodes if node.op == "placeholder"}
    unused -= {node.name for node in program.graph.nodes if node.users}
    for index, (name, value) in enumerate(zip(names, given, strict=False)):
        others = [names[i] for i, other in enumerate(given[: len(names)]) if other is value]
        if isinstance(value, torch.Tensor) and name in unused and len(others) > 1:
            _LOG.warning(
                "method %r ignores input %d (%s): it was exported with one tensor for %s, which"
                " torch.export takes for one input. Give each a tensor of its own, as x.clone()",
                method,
                index,
                argument_name(name),
                " and ".join(map(argument_name, others)),
            )


def _is_training(node: Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return False
    if not any(word in node.target.__name__ for word in ("dropout", "batch_norm")):
        return False
    declared = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in declared}
    values.update(zip(values, node.args, strict=False), **node.kwargs)
    return values.get("train", values.get("training")) is True


def warn_of_platforms(programs: Mapping[str, ExportedProgram]) -> None:
    """Logs a warning if no machine can run all delegates of a lowered program."""
    backends: defaultdict[str, set[str]] = defaultdict(set)
    for program in programs.values():
        for _, module in lowered_modules(program.graph_module):
            platform = imported_backend(module.backend_id).get_platform(module.compile_specs)
            backends[platform].add(module.backend_id)
    backends.pop("", None)
    if len(backends) > 1:
        _LOG.warning(
            "no machine runs this program: it has code for %s. explain() shows which operators are"
            " where; use one platform, or rewrite what is left to the other backend",
            " and for ".join(
                f"{platform} ({', '.join(sorted(backends[platform]))})"
                for platform in sorted(backends)
            ),
        )


def check_shared_state(programs: Mapping[str, ExportedProgram]) -> None:
    """Raises ValueError if a method reads state that only other methods of its module change.

    Args:
      programs: functional, by method.
    """
    changed: dict[tuple[str, int], str] = {}
    for method, program in programs.items():
        written = set(program.graph_signature.buffers_to_mutate.values())
        changed.update({key: method for key in _buffers(program) if key[0] in written})
    problems = [
        f"  {method!r} reads {key[0]!r}, which {changed[key]!r} changes"
        for method, program in programs.items()
        for key in _buffers(program, read=True)
        if key in changed and key[0] not in program.graph_signature.buffers_to_mutate.values()
    ]
    if problems:
        raise ValueError(
            "a method sees changes of a buffer only if it changes the buffer itself:\n"
            + "\n".join(problems)
            + "\ntry:  a change that changes nothing, as self.NAME.mul_(1), in those methods"
        )


def _buffers(program: ExportedProgram, read: bool = False) -> set[tuple[str, int]]:
    """Buffers of a program, or only those that it reads, by name and address."""
    specs = input_specs_by_name(program)
    found = set()
    for node in program.graph.find_nodes(op="placeholder"):
        spec = specs[node.name]
        if spec.kind is InputKind.BUFFER and (node.users or not read):
            tensor = constant_tensor(program, spec)
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                found.add((str(spec.target), tensor.data_ptr()))
    return found
