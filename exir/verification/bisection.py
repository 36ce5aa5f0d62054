"""Finds the first operator of a lowered program that differs from the exported one.

A prefix of a functional program is itself a program: it returns the values that the rest would
read. A prefix is checked by lowering and running it; the first wrong prefix ends with the operator
that differs. The search runs over the calls of the method (a delegate is one call), then over the
calls inside the delegate.
"""

import copy
import functools
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Interpreter, Node
from torch.utils import _pytree as pytree

from pteron.exir.backend.backend_api import to_backend
from pteron.exir.backend.partitioner import (
    DELEGATION_TAG,
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from pteron.exir.backend.utils import get_non_lowered_nodes, is_delegate_call, tag_constant_data
from pteron.exir.graph.exported_program import (
    argument_spec,
    copy_graph,
    flat_outputs,
    input_spec_for,
    make_program,
    source_line,
)
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule, lowered_module_of
from pteron.exir.verification import execution
from pteron.exir.verification.call import State, call
from pteron.exir.verification.comparison import compare, rounding_of
from pteron.exir.verification.execution import Written
from pteron.exir.verification.reference import Reference

_SECONDS = 600
"""Time limit: lowering prefixes of a large partition is slow; the search then ends with a range."""

Write: TypeAlias = Callable[[ExportedProgram], Written]


def first_difference(
    program: ExportedProgram, reference: Reference, outputs: Sequence[int], write: Write
) -> str:
    """Describes the first operator that differs, with its source line in the model.

    Args:
      program: the functional program with delegate calls.
      reference: the exported program, and inputs on which it differs.
      outputs: positions of the differing outputs.
      write: lowers the remaining operators of a program and writes it.
    """
    deadline = time.monotonic() + _SECONDS
    state = reference.state()
    for _ in range(reference.call_count):
        before = {name: value.clone() for name, value in state.items()}
        inputs = reference.inputs()
        found = _search(program, inputs, before, write, deadline)
        if found is not None:
            return found
        call(program, inputs, state)
    results = _user_outputs(program)
    origins = _origins(results[index] for index in outputs if index < len(results))
    return (
        "no part of it differs on its own: what is between the parts, or memory that they share;"
        f" what differs comes from {origins}"
    )


def _user_outputs(program: ExportedProgram) -> list[Any]:
    specs = program.graph_signature.output_specs
    outputs = zip(flat_outputs(program.graph), specs, strict=True)
    return [value for value, spec in outputs if spec.kind is OutputKind.USER_OUTPUT]


def _origins(values: Iterable[Any]) -> str:
    """The operators that compute values, also inside delegates, without views."""
    found = []
    for node in values:
        while isinstance(node, Node) and node.op == "call_function":
            source: Any = node.args[0] if node.args else None
            index: Any = node.args[-1] if node.args else None
            if node.target is operator.getitem and is_delegate_call(source):
                node = flat_outputs(lowered_module_of(source).original_module.graph)[index]
            elif node.target is operator.getitem or (
                isinstance(node.target, torch._ops.OpOverload) and node.target.is_view
            ):
                node = source
            else:
                break
        found.append(_describe(node) if isinstance(node, Node) else "a constant")
    return " and ".join(dict.fromkeys(found)) or "inputs that it changes"


def _search(
    program: ExportedProgram, inputs: Sequence[Any], state: State, write: Write, deadline: float
) -> str | None:
    steps = _steps(program)
    wrong = functools.cache(lambda count: _wrong(program, steps, count, inputs, state, write))
    first = _first_wrong(len(steps), lambda count: not wrong(count), deadline)
    if first is None:
        return None
    if first[0] + 1 < first[1]:
        return f"the first operator that differs is {_range(steps, *first)}"
    node = steps[first[1] - 1][0]
    if not is_delegate_call(node):
        return f"the first operator that differs is {_describe(node)}"
    module = lowered_module_of(node)
    where = f"in {node.args[0]} of {module.backend_id}"
    found = _search_delegate(node, module, program, inputs, state, write, deadline)
    if found is None:
        own = [value for value in wrong(first[1]) if node in (value, *value.all_input_nodes)]
        found = f"it is the delegate as a whole; what differs comes from {_origins(own)}"
    return f"{found}, {where}"


def _search_delegate(
    node: Node,
    module: LoweredBackendModule,
    program: ExportedProgram,
    inputs: Sequence[Any],
    state: State,
    write: Write,
    deadline: float,
) -> str | None:
    arguments = _arguments(program, node, inputs, state)
    part = module.original_module
    everything = _Everything(DelegationSpec(module.backend_id, module.compile_specs))
    steps = _steps(part)
    first = _first_wrong(
        len(steps),
        lambda count: (
            not _wrong(
                part, steps, count, arguments, {}, lambda p: write(to_backend(p, everything))
            )
        ),
        deadline,
    )
    if first is None:
        return None
    if first[0] + 1 < first[1]:
        return f"the first operator that differs is {_range(steps, *first)}"
    return f"the first operator that differs is {_describe(steps[first[1] - 1][0])}"


def _first_wrong(
    count: int, is_right: Callable[[int], bool], deadline: float
) -> tuple[int, int] | None:
    """(longest correct prefix, shortest wrong prefix); None if all are correct."""
    if is_right(count):
        return None
    right, wrong = 0, count
    while right + 1 < wrong and time.monotonic() < deadline:
        middle = (right + wrong) // 2
        if is_right(middle):
            right = middle
        else:
            wrong = middle
    return right, wrong


def _steps(program: ExportedProgram) -> list[list[Node]]:
    """Calls in order, each with the `getitem` nodes of its results."""
    steps: list[list[Node]] = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is operator.getitem and steps and node.args[0] is steps[-1][0]:
            steps[-1].append(node)
        else:
            steps.append([node])
    return steps


def _wrong(
    program: ExportedProgram,
    steps: list[list[Node]],
    count: int,
    inputs: Sequence[Any],
    state: State,
    write: Write,
) -> list[Node]:
    """The values that differ among those that the first steps pass to the rest."""
    live = _live(steps[:count])
    if not live:
        return []
    prefix = _prefix(program, live, state)
    written = write(prefix)
    (method,) = written.tables.methods
    with execution.loaded(written) as loaded:
        found = execution.Execution(loaded, method).run(lambda: [copy.deepcopy(list(inputs))])

    def run(interpreter: Callable[..., Interpreter]) -> list[list[Any]]:
        return [call(prefix, inputs, {}, interpreter)]

    products = execution.precision_of_products(method)
    compared = compare(
        found, run(Interpreter), rounding_of(run, products=products), products=products
    )
    return [live[c.index] for c in compared if not c.is_equal]


def _live(steps: Sequence[Sequence[Node]]) -> list[Node]:
    """Values of these steps that later steps use and that a program can return."""
    members = {node for step in steps for node in step}
    return [
        node
        for step in steps
        for node in step
        if isinstance(node.meta.get("val"), torch.Tensor)
        and any(user not in members for user in node.users)
    ]


def _prefix(program: ExportedProgram, live: Sequence[Node], state: State) -> ExportedProgram:
    """A program that computes these values, with buffers initialized from `state`."""
    graph, mapping = copy_graph(program.graph)
    results = [mapping[node] for node in live]
    graph.output_node().args = (tuple(results),)
    root = program.graph_module
    olds = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = list(zip(olds, program.graph_signature.input_specs, strict=True))
    graph.eliminate_dead_code()
    now = {f"{name}_now": value for name, value in state.items()}
    input_specs = [
        InputSpec(
            InputKind.CONSTANT_TENSOR, TensorArgument(mapping[old].name), f"{spec.target}_now"
        )
        if spec.target in state
        else input_spec_for(spec, mapping[old])
        for old, spec in specs
    ]
    users = sum(spec.kind is InputKind.USER_INPUT for spec in input_specs)
    return make_program(
        root,
        graph,
        input_specs,
        [OutputSpec(OutputKind.USER_OUTPUT, argument_spec(node), None) for node in results],
        program,
        in_spec=pytree.tree_structure((tuple(range(users)), {})),
        out_spec=pytree.tree_structure(tuple(range(len(results)))),
        constants=now,
    )


def _arguments(
    program: ExportedProgram, node: Node, inputs: Sequence[Any], state: State
) -> list[Any]:
    """The arguments of a node, without the callee."""
    found: list[Any] = []

    class Stops(Interpreter):
        def run_node(self, n: Node) -> Any:
            if n.name == node.name and not found:
                found.extend(self.fetch_args_kwargs_from_env(n)[0][1:])
            return super().run_node(n)

    call(program, [_copied(value) for value in inputs], dict(state), Stops)
    return found


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


class _Everything(Partitioner):
    """Tags all calls for one backend."""

    def __init__(self, spec: DelegationSpec) -> None:
        self._spec = spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            node.meta.pop(DELEGATION_TAG, None)
        for node in get_non_lowered_nodes(exported_program.graph):
            node.meta[DELEGATION_TAG] = "everything"
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, {"everything": self._spec})


def _describe(node: Node) -> str:
    target = getattr(node.target, "__name__", None)
    name = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else target
    return ", ".join(part for part in (f"{name} (%{node.name})", source_line(node)) if part)


def _range(steps: Sequence[Sequence[Node]], right: int, wrong: int) -> str:
    return (
        f"one of {wrong - right} from {_describe(steps[right][0])} to"
        f" {_describe(steps[wrong - 1][0])} (the search was ended after {_SECONDS} s)"
    )
