"""Extracts a partition from a program, and replaces it by a delegate call.

    partition       = a tag's nodes (pteron.exir.backend.partitions)
    extract         -> Extracted: the partition as a program of its own, and its arguments
    backend         -> PreprocessResult -> LoweredBackendModule
    insert_delegates-> the program with delegate calls instead

Constants that a partition owns move into its program. State that it mutates stays outside and is an
input of the partition. Programs stay functional, so the new value is an output of the call here;
`pteron.exir.passes.resolve_mutations` makes it an in-place mutation at the very end.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from pteron.exir.backend.partition_boundary import BOUNDARIES
from pteron.exir.backend.partitioner import DELEGATION_TAG
from pteron.exir.backend.partitions import Partition, Step
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.exported_program import (
    argument_spec,
    copy_graph_module,
    copy_program,
    flat_outputs,
    input_spec_for,
    input_specs_by_name,
    make_program,
    mutation_targets,
    with_graph,
)
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule
from pteron.exir.graph.shape_bounds import sources_of_sizes
from pteron.exir.graph.tensor_layout import with_dense_strides


@dataclass(frozen=True)
class Extracted:
    """An extracted partition.

    Attributes:
      partition: its nodes.
      program: the partition as a functional program; all its outputs are user outputs.
      arguments: nodes of the outer program, one per user input.
      results: nodes of the outer program that its outputs replace, one per output. The first
        `len(mutated_inputs)` are new values of inputs.
      mutated_inputs: (output, input) positions.
      boundaries: where it ends and why, human-readable; see `partition_boundary`.
    """

    partition: Partition
    program: ExportedProgram
    arguments: list[Node]
    results: list[Node]
    mutated_inputs: tuple[tuple[int, int], ...]
    boundaries: Sequence[str] = ()


def _external_inputs(partition: Partition, state: Sequence[Node]) -> list[Node]:
    """Outside nodes that the partition reads, in graph order, and the state that it writes."""
    graph = partition.nodes[0].graph
    inside = set(partition.nodes) | set(partition.constants)
    used = {
        arg
        for node in partition.nodes
        for arg in node.all_input_nodes
        if arg not in inside and arg.op != "get_attr"
    }
    used.update(state)
    used.update(sources_of_sizes(graph, used))
    return [node for node in graph.nodes if node in used]


def extract(program: ExportedProgram, partition: Partition) -> Extracted:
    """Extracts a partition as a program. The outer program is not changed; tensors are shared."""
    inside = set(partition.nodes)
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    outputs = flat_outputs(program.graph)
    states = {placeholders[name] for _, name in mutation_targets(program)}
    # Copies of another state are outputs, which are written once all is read: in place, two states
    # that are exchanged would both get the value of one.
    new_values = [
        (value, placeholders[name])
        for index, name in mutation_targets(program)
        if (value := outputs[index]) in inside
        and _copied(value) not in states - {placeholders[name]}
    ]
    mutation_count = len(mutation_targets(program))
    returned = {node for node in outputs[mutation_count:] if isinstance(node, Node)}
    arguments = _external_inputs(partition, [state for _, state in new_values])
    # Readers inside the program read the new value from the mutated input. A new value that the
    # method returns is a separate output, since the caller may keep it.
    changed = {value for value, _ in new_values}
    plain = [
        node
        for node in partition.nodes
        if node in returned
        or (node not in changed and any(user not in inside for user in node.users))
    ]
    results = [value for value, _ in new_values] + plain
    mutated = tuple((index, arguments.index(state)) for index, (_, state) in enumerate(new_values))
    subprogram = _build(program, partition, arguments, results)
    return Extracted(partition, subprogram, arguments, results, mutated)


def _copied(value: Node) -> Node:
    """What a value is a copy or a view of."""
    while (
        value.op == "call_function"
        and isinstance(operation := value.target, torch._ops.OpOverload)
        and (operation.is_view or operation._schema.name.endswith(("_copy", "::clone")))
        and isinstance(source := value.args[0], Node)
    ):
        value = source
    return value


def _build(
    program: ExportedProgram,
    partition: Partition,
    arguments: list[Node],
    results: list[Node],
) -> ExportedProgram:
    graph = Graph()
    mapping: dict[Node, Node] = {}
    specs = input_specs_by_name(program)
    order = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    constants = sorted(partition.constants, key=lambda node: order.index(specs[node.name].kind))
    input_specs = []
    for node in [*constants, *arguments]:
        new = graph.placeholder(node.name)
        new.meta = {k: v for k, v in node.meta.items() if k not in (DELEGATION_TAG, "tensor_meta")}
        mapping[node] = new
        if node in partition.constants:
            input_specs.append(input_spec_for(specs[node.name], new))
        else:
            new.meta["val"] = with_dense_strides(new.meta.get("val"))
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument_spec(new), None))

    root = torch.nn.Module()

    def inner(arg: Node) -> Node:
        if arg not in mapping and arg.op == "get_attr":
            _copy_attribute(program.graph_module, root, str(arg.target))
            mapping[arg] = graph.node_copy(arg)
            mapping[arg].meta = dict(arg.meta)
        return mapping[arg]

    for node in partition.nodes:
        mapping[node] = graph.node_copy(node, inner)
        mapping[node].meta = {k: v for k, v in node.meta.items() if k != DELEGATION_TAG}
    graph.output(tuple(mapping[node] for node in results))
    return make_program(
        root,
        graph,
        input_specs,
        [OutputSpec(OutputKind.USER_OUTPUT, argument_spec(mapping[n]), None) for n in results],
        program,
        in_spec=pytree.tree_structure((tuple(range(len(arguments))), {})),
        out_spec=pytree.tree_structure(tuple(range(len(results)))),
    )


def _copy_attribute(source: torch.nn.Module, root: torch.nn.Module, name: str) -> None:
    """Copies attribute `name` of `source` to `root`."""
    value = operator.attrgetter(name)(source)
    if isinstance(value, torch.fx.GraphModule):
        value = copy_graph_module(value)
    *parents, leaf = name.split(".")
    for parent in parents:
        if not hasattr(root, parent):
            root.add_module(parent, torch.nn.Module())
        root = getattr(root, parent)
    setattr(root, leaf, value)


def backend_program(extracted: Extracted) -> ExportedProgram:
    """The partition for its backend: a copy, with state as mutated user inputs."""
    program = copy_program(extracted.program)
    signature = program.graph_signature
    inputs = [s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    target_of = {output: inputs[index] for output, index in extracted.mutated_inputs}
    output_specs = [
        OutputSpec(OutputKind.USER_INPUT_MUTATION, spec.arg, target_of[index])
        if index in target_of
        else spec
        for index, spec in enumerate(signature.output_specs)
    ]
    in_spec = program.call_spec.in_spec
    assert in_spec is not None
    result = make_program(
        program.graph_module,
        program.graph,
        signature.input_specs,
        output_specs,
        program,
        in_spec=in_spec,
        out_spec=pytree.tree_structure(tuple(range(len(output_specs) - len(target_of)))),
    )
    result.graph_module.meta[BOUNDARIES] = list(extracted.boundaries)
    return result


def insert_delegates(
    program: ExportedProgram,
    steps: Sequence[Step],
    lowered: dict[str, tuple[Extracted, LoweredBackendModule]],
) -> ExportedProgram:
    """The program with a delegate call for each partition.

    Args:
      program: the tagged program of `steps`.
      steps: from `plan_partitions`.
      lowered: lowered module per tag. A missing tag has no results and is dropped.
    """
    graph = Graph()
    root = torch.nn.Module()
    for name, value in program.graph_module.named_children():
        root.add_module(name, value)
    mapping: dict[Node, Node] = {}
    kept = _kept_placeholders(program)
    for node in program.graph.nodes:
        if node.op in ("placeholder", "get_attr") and (node.op == "get_attr" or node in kept):
            mapping[node] = _copy_node(graph, node, mapping)
            if node.op == "get_attr" and not hasattr(root, str(node.target).split(".")[0]):
                _copy_attribute(program.graph_module, root, str(node.target))

    new_values: dict[Node, Node] = {}
    count = sum(1 for name, _ in root.named_children() if name.startswith("lowered_module_"))
    for step in steps:
        if isinstance(step, Node):
            mapping[step] = _copy_node(graph, step, mapping)
        elif step.tag in lowered:
            extracted, module = lowered[step.tag]
            name = f"lowered_module_{count}"
            count += 1
            root.add_module(name, module)
            results = _insert_call(graph, name, extracted, mapping)
            mutation_count = len(extracted.mutated_inputs)
            for index, (old, new) in enumerate(zip(extracted.results, results, strict=True)):
                if index < mutation_count:
                    new_values[old] = new
                    mapping.setdefault(old, new)
                else:
                    mapping[old] = new

    outputs: list[Any] = []
    for spec, value in zip(
        program.graph_signature.output_specs, flat_outputs(program.graph), strict=True
    ):
        if isinstance(value, Node):
            is_state = spec.kind is not OutputKind.USER_OUTPUT
            value = new_values.get(value, mapping.get(value)) if is_state else mapping[value]
        outputs.append(value)
    graph.output(tuple(outputs))
    for node in reversed(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
    return with_graph(program, root, graph, mapping)


def _kept_placeholders(program: ExportedProgram) -> set[Node]:
    """Placeholders of the outer program: all except constants that only partitions own."""
    mutated = {name for _, name in mutation_targets(program)}
    kept = set()
    for node in program.graph.nodes:
        if node.op == "placeholder":
            moved = DELEGATION_TAG in node.meta and node.name not in mutated
            if not moved or any(DELEGATION_TAG not in user.meta for user in node.users):
                kept.add(node)
    return kept


def _copy_node(graph: Graph, node: Node, mapping: dict[Node, Node]) -> Node:
    copy = graph.node_copy(node, lambda arg: mapping[arg])
    copy.meta = {key: value for key, value in node.meta.items() if key != DELEGATION_TAG}
    return copy


def _insert_call(
    graph: Graph, name: str, extracted: Extracted, mapping: dict[Node, Node]
) -> list[Node]:
    """Adds the call of a lowered module; returns the node of each of its results."""
    attribute = graph.get_attr(name)
    arguments = [mapping[node] for node in extracted.arguments]
    call = graph.call_function(executorch_call_delegate, (attribute, *arguments))
    values = [node.meta["val"] for node in extracted.results]
    call.meta["val"] = tuple(values)
    results = []
    for index, (node, value) in enumerate(zip(extracted.results, values, strict=True)):
        result = graph.call_function(operator.getitem, (call, index))
        result.meta = {
            k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta
        }
        result.meta["val"] = value
        results.append(result)
    return results
