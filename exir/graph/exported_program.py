"""Helpers for `torch.export.ExportedProgram`, used throughout lowering."""

import builtins
import dataclasses
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

CONSTANT_KINDS = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})
"""Kinds of inputs that are tensors of the model."""


def input_specs_by_name(program: ExportedProgram) -> dict[str, InputSpec]:
    """Placeholder name to input spec, in order."""
    placeholders = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    return dict(zip(placeholders, program.graph_signature.input_specs, strict=True))


def check_constants(program: ExportedProgram) -> None:
    """Refuses constants without values, which torch.export with strict=True makes of a parameter's
    `.data` in `forward`, and otherwise of what torch.func.grad() wraps; torch crashes when it
    decomposes such a program.

    Raises:
      ValueError: says which constants.
    """
    without = [name for name, value in program.constants.items() if is_fake(value)]
    if without:
        raise ValueError(
            f"torch.export lost the values of {', '.join(without)}: tensors that `forward` takes in"
            " a way that cannot be traced, such as `self.weight.data`.\n"
            "try:  the parameter or buffer itself, under torch.no_grad() where it is written"
        )


def argument_name(placeholder: str) -> str:
    """The argument of an input; `input`, a Python builtin, is `input_1` in graphs."""
    name = placeholder.removesuffix("_1")
    return name if keyword.iskeyword(name) or hasattr(builtins, name) else placeholder


def flat_outputs(graph: Graph) -> list[Any]:
    """The outputs of a flat graph: nodes and constants."""
    (outputs,) = graph.output_node().args
    assert isinstance(outputs, tuple | list)
    return list(outputs)


def mutation_targets(program: ExportedProgram) -> list[tuple[int, str]]:
    """Position of each mutation output, and the placeholder that it mutates."""
    by_target = {
        spec.target: name
        for name, spec in input_specs_by_name(program).items()
        if spec.kind is InputKind.BUFFER
    }
    found = []
    for index, spec in enumerate(program.graph_signature.output_specs):
        if spec.kind is OutputKind.BUFFER_MUTATION:
            found.append((index, by_target[spec.target]))
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            assert spec.target is not None
            found.append((index, spec.target))
    return found


def constant_tensor(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor of a parameter, buffer or constant. KeyError if the program lacks it."""
    assert spec.target is not None
    if spec.target in program.state_dict:
        return program.state_dict[spec.target]
    return program.constants[spec.target]


def argument_spec(value: Any) -> ArgumentSpec:
    """The signature argument of a node or constant."""
    if not isinstance(value, Node):
        return ConstantArgument(name="", value=value)
    example = value.meta.get("val")
    if isinstance(example, torch.Tensor):
        return TensorArgument(name=value.name)
    if isinstance(example, torch.SymInt):
        return SymIntArgument(name=value.name)
    if isinstance(example, torch.SymFloat):
        return SymFloatArgument(name=value.name)
    if isinstance(example, torch.SymBool):
        return SymBoolArgument(name=value.name)
    if example is None or isinstance(example, int | float | bool | str):
        return ConstantArgument(name=value.name, value=example)
    raise TypeError(
        f"node {value.name} ({value.target}) has a value of type {type(example).__name__}, which"
        f" cannot pass between parts of a program; expected a tensor or scalar"
    )


def make_program(
    root: torch.nn.Module | dict[str, Any],
    graph: Graph,
    input_specs: Sequence[InputSpec],
    output_specs: Sequence[OutputSpec],
    like: ExportedProgram,
    *,
    in_spec: TreeSpec,
    out_spec: TreeSpec,
    constants: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """A program with this graph and the tensors of `like` that its inputs refer to.

    Tensors are shared, not copied; takes ownership of the graph.
    """
    targets = {spec.target for spec in input_specs if spec.target is not None}
    source = {**like.constants, **(constants or {})}
    signature = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    return ExportedProgram(
        root=root,
        graph=graph,
        graph_signature=ExportGraphSignature(list(input_specs), list(output_specs)),
        state_dict={name: like.state_dict[name] for name in like.state_dict if name in targets},
        range_constraints=dict(like.range_constraints),
        module_call_graph=[ModuleCallEntry(fqn="", signature=signature)],
        example_inputs=None,
        constants={name: source[name] for name in source if name in targets},
        verifiers=like.verifiers,
    )


def copy_graph(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """A copy of a graph, and the copy of each node. Names may differ."""
    copied = Graph()
    mapping: dict[Node, Node] = {}
    copied.output(copied.graph_copy(graph, mapping))
    for old, new in mapping.items():
        new.meta = dict(old.meta)
    return copied, mapping


def input_spec_for(spec: InputSpec, node: Node) -> InputSpec:
    """An input spec under the name of `node`."""
    argument = dataclasses.replace(spec.arg, name=node.name)
    return InputSpec(spec.kind, argument, spec.target, spec.persistent)


def output_spec_for(spec: OutputSpec, value: Any, names: Mapping[str, str]) -> OutputSpec:
    """An output spec of a node or constant; `names` maps old placeholder names to new ones."""
    target = spec.target
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        assert target is not None
        target = names[target]
    return OutputSpec(spec.kind, argument_spec(value), target)


def with_graph(
    program: ExportedProgram,
    root: torch.nn.Module,
    graph: Graph,
    mapping: Mapping[Node, Node],
    *,
    in_spec: TreeSpec | None = None,
    out_spec: TreeSpec | None = None,
) -> ExportedProgram:
    """The program with an edited copy of its graph, which may lack some inputs and call results.

    Args:
      program: source of everything else.
      root: has the attributes that the graph names.
      graph: takes ownership; has as many outputs as the program.
      mapping: placeholders of the program to those of the graph; inputs not in it are dropped.
      in_spec: pytree of the arguments, if not the program's.
      out_spec: pytree of the results, if not the program's.
    """
    olds = [node for node in program.graph.nodes if node.op == "placeholder"]
    names = {old.name: mapping[old].name for old in olds if old in mapping}
    nested = in_spec is None
    in_spec = in_spec or program.call_spec.in_spec
    out_spec = out_spec or program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    result = make_program(
        root,
        graph,
        [
            input_spec_for(spec, mapping[old])
            for old, spec in zip(olds, program.graph_signature.input_specs, strict=True)
            if old in mapping
        ],
        [
            output_spec_for(spec, value, names)
            for spec, value in zip(
                program.graph_signature.output_specs, flat_outputs(graph), strict=True
            )
        ],
        program,
        in_spec=in_spec,
        out_spec=out_spec,
    )
    if nested:
        result._example_inputs = program.example_inputs
        before, after = (entry.module_call_graph[0].signature for entry in (program, result))
        if before is not None and after is not None:
            after.forward_arg_names = before.forward_arg_names
    return result


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """A copy whose graph may be edited. Tensors and lowered modules are shared, not copied."""
    graph, mapping = copy_graph(program.graph)
    return with_graph(program, copy_modules(program.graph_module), graph, mapping)


def flat_program(program: ExportedProgram) -> ExportedProgram:
    """A copy that takes its inputs as flat arguments and returns its outputs as a flat tuple."""
    graph, mapping = copy_graph(program.graph)
    root = copy_modules(program.graph_module)
    user_inputs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    outputs = flat_outputs(graph)
    return with_graph(
        program,
        root,
        graph,
        mapping,
        in_spec=pytree.tree_structure((tuple(range(len(user_inputs))), {})),
        out_spec=pytree.tree_structure(tuple(range(len(outputs)))),
    )


def copy_modules(module: GraphModule) -> torch.nn.Module:
    """A module to take a graph's attributes from; branch graphs are copied, the rest is shared."""
    root = torch.nn.Module()
    for name, child in module.named_children():
        if isinstance(child, GraphModule):
            child = copy_graph_module(child)
        root.add_module(name, child)
    own = [
        *module.named_parameters(recurse=False),
        *module.named_buffers(recurse=False),
    ]
    for name, value in own:
        setattr(root, name, value)
    for node in module.graph.nodes:
        if node.op == "get_attr" and "." not in node.target and not hasattr(root, node.target):
            setattr(root, node.target, getattr(module, node.target))
    return root


def copy_graph_module(module: GraphModule) -> GraphModule:
    """A copy of a branch module whose graph may be edited."""
    graph, _ = copy_graph(module.graph)
    copied = GraphModule(copy_modules(module), graph)
    copied.meta = dict(module.meta)
    return copied


def module_path(node: Node) -> str:
    """The path of the innermost module that called a node, "encoder.layer.0"; "" for the model."""
    modules = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return re.sub(r"^L\['self'\]\.?|^L__self___?", "", modules[-1]) if modules else ""


def source_line(node: Node) -> str:
    """The line of the model that a node comes from, such as `model.py:41`, or `""`."""
    trace = node.meta.get("stack_trace")
    if not trace:
        return ""
    frames = [line.strip() for line in trace.splitlines()]
    frames = [x for x in frames if x.startswith("File ") and "<eval_with_key>" not in x]
    # Skips torch's own frames, and generated graphs.
    own = [frame for frame in frames if "/torch/" not in frame and '"<' not in frame] or frames
    if not own:
        return ""
    path, line = own[-1].split(", ")[:2]
    return f"{path.removeprefix('File ').strip(chr(34)).rsplit('/', 1)[-1]}:{line.split()[-1]}"
