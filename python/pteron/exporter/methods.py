"""Converts the caller's methods to exported programs."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from pteron.exir.arguments import DEFAULT_METHOD
from pteron.exir.graph.exported_program import argument_name
from pteron.exir.operators.decompositions import join_aliases
from pteron.exir.operators.flex_attention import decompose_flex_attention
from pteron.exir.operators.quantized_matmul import use_int_mm
from pteron.exir.operators.written_parameters import written_parameters_as_buffers
from pteron.exporter.caches import register_caches
from pteron.exporter.differences import check_runs, differences, is_right
from pteron.exporter.errors import ExportError, unknown
from pteron.exporter.inputs import (
    check_dimensions,
    check_tensors,
    distinct,
    inputs_of,
    register_dataclasses,
    shapes_for,
    with_named_keywords,
)
from pteron.exporter.method_values import (
    FORMS,
    check_hashable,
    kind_of,
    method_without_scripts,
    module_of,
)
from pteron.exporter.modules import evaluate, shared_buffers
from pteron.exporter.sizes import roots, with_sizes, without_ones
from pteron.exporter.ways import export_first_way

#: Bytes of buffers with which a model is not run once more: they are copied.
_MOST = 1 << 28


def export_methods(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool | None = None,
    run: bool = True,
) -> tuple[dict[str, ExportedProgram], list[str]]:
    """Exported programs by method, and notes. ExportError lists all errors.

    `run`: whether to run each once in eager, as a check.
    """
    if not isinstance(model, Mapping):
        model = {DEFAULT_METHOD: (model, args, dynamic_shapes)}
    elif any(isinstance(value, torch.Tensor) for value in model.values()):
        raise ExportError(
            "found a state dict, which has weights and no code; expected the module of which they"
            " are.\n"
            "try:  model.load_state_dict(state), and pteron.export(model, ...)"
        )
    elif args is not None or kwargs:
        raise ExportError(
            "found a dict of methods and separate example inputs; expected the inputs in the"
            ' dict.\ntry:  {"prefill": (model.prefill, (tokens,)), "decode": (model.decode, (t,))}'
        )
    elif dynamic_shapes is not None:
        missing = [name for name in dynamic_shapes if name not in model]
        if missing:
            raise ExportError(f"dynamic_shapes: {unknown('method', missing[0], model)}")
        model = {
            name: (*value[:2], dynamic_shapes[name])
            if name in dynamic_shapes and isinstance(value, tuple)
            else value
            for name, value in model.items()
        }
    if not model:
        raise ExportError(f"found an empty dict of methods; expected {FORMS}")
    programs: dict[str, ExportedProgram] = {}
    problems: list[str] = []
    notes: list[str] = []
    for name, value in model.items():
        check_hashable(str(name), value)
    shared = {key for value in model.values() for key in shared_buffers(value)}
    seen: dict[int, torch.nn.Module] = {}
    for name, value in model.items():
        try:
            value = method_without_scripts(str(name), value, seen)
            programs[name] = _export_method(
                str(name), value, kwargs or {}, strict, shared, run, notes
            )
            if run:
                outputs, written = check_runs(str(name), value, programs[name])
                generators = any(
                    isinstance(held, torch.Generator) for held in programs[name].constants.values()
                )
                if generators:
                    notes.append(
                        f"method {name!r} takes random values from the runtime, not from the"
                        f" torch.Generator of the model"
                    )
                elif outputs:
                    notes += differences(str(name), value, programs[name], outputs, written)
        except ExportError as error:
            problems.append(str(error))
    if problems:
        raise ExportError("\n".join(problems))
    return programs, notes


def constants_of(constant_methods: Mapping[str, Any] | None) -> dict[str, Any]:
    """Constants as a program holds them, arrays as lists. ExportError lists all that it cannot."""
    constants = {
        str(name): pytree.tree_map(
            lambda leaf: leaf.tolist() if hasattr(leaf, "tolist") else leaf, value
        )
        for name, value in (constant_methods or {}).items()
    }
    wrong = [
        f"{name!r} holds a {kind_of(leaf)}"
        for name, value in constants.items()
        for leaf in pytree.tree_leaves(value)
        if not isinstance(leaf, bool | int | float | str | None)
    ]
    if wrong:
        raise ExportError(
            f"constant_methods: {', '.join(wrong)}; expected numbers, bools, strings and None, in"
            " lists, dicts and arrays"
        )
    return constants


def example_of(
    model: Any, method: str | None = None
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """An eager callable of a method, as it would be exported, and its example inputs."""
    if isinstance(model, Mapping):
        method = method or DEFAULT_METHOD
        if method not in model:
            raise ExportError(unknown("method", method, model))
        model = model[method]
    method = method or DEFAULT_METHOD
    parts = model if isinstance(model, tuple) else (model,)
    if isinstance(parts[0], ExportedProgram):
        if parts[0].example_inputs is None:
            raise ExportError(f"method {method!r}: the exported program carries no example inputs")
        return parts[0].module(), *parts[0].example_inputs
    module, forward = module_of(method, parts)
    evaluate(module)
    args, kwargs = inputs_of(method, forward, parts[1] if len(parts) > 1 else None, {})
    return (module if forward == module.forward else forward), args, kwargs


def _export_method(
    name: str,
    value: Any,
    kwargs: Mapping[str, Any],
    strict: bool | None,
    shared: set[int],
    compares: bool,
    notes: list[str],
) -> ExportedProgram:
    parts = value if isinstance(value, tuple) else (value,)
    target, args, shapes = (*parts, None, None, None)[:3]
    if isinstance(target, ExportedProgram):
        if args is not None:
            notes.append(
                f"method {name!r}: an ExportedProgram has example inputs; others are not used"
            )
        if shapes is not None:
            raise ExportError(
                f"method {name!r}: found dynamic shapes beside an ExportedProgram, which has its"
                f" own.\ntry:  torch.export.export(module, args, dynamic_shapes=...)"
            )
        return target
    register_caches()
    module, forward = module_of(name, parts)
    positional, named = inputs_of(name, forward, args, kwargs)
    if module.training and not isinstance(module, torch.fx.GraphModule):
        notes.append(
            f"the module of method {name!r} was in training mode; it was exported as its eval()"
            f" has it"
        )
    positional, named = distinct((positional, named))
    register_dataclasses((positional, named))
    forward = with_named_keywords(forward, named)
    check_dimensions(name, forward, positional, named, shapes)
    shapes = shapes_for(name, forward, positional, named, shapes)
    given = inspect.signature(forward).bind(*positional, **named)
    inputs = without_ones(given, shapes)
    if inputs is not given:
        positional, named = inputs.args, inputs.kwargs
        notes.append(
            f"method {name!r}: example inputs that have size 1 where it may change, which"
            f" torch.export takes for a constant, were exported with size 2"
        )
    program = export_first_way(
        name, module, forward, (positional, named), inputs, shapes, strict, shared, notes
    )
    _check_values(name, program, notes)
    dense = (buffer for buffer in module.buffers() if buffer.layout is torch.strided)
    compares = compares and sum(buffer.nbytes for buffer in dense) < _MOST
    for dim, (of, size) in roots(inputs, shapes).items() if compares else ():
        one = with_sizes(inputs, shapes, {dim: 1})
        with contextlib.suppress(Exception):  # neither may run with that
            if of.min < 2 <= size and not is_right(program, module, forward, [one]):
                notes.append(
                    f"method {name!r}: where {dim} is 1, the model computes something else than the"
                    f" program, for which torch.export took it to be 2 or more (squeeze() of it, a"
                    f" comparison with it); Dim({dim!r}, min=2) refuses 1"
                )
    if all(leaf is None for leaf in program.graph_signature.user_outputs):
        notes.append(f"method {name!r} returns nothing")
    # Some operators do not run as they are.
    program = use_int_mm(decompose_flex_attention(program))
    # So that running it leaves the module's tensors as they are.
    return written_parameters_as_buffers(join_aliases(program))


def _check_values(name: str, program: ExportedProgram, notes: list[str]) -> None:
    """ExportError for inputs and outputs that no program has; a note on ints that are fixed."""
    fixed = []
    for node, spec in zip(
        program.graph.find_nodes(op="placeholder"),
        program.graph_signature.input_specs,
        strict=True,
    ):
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if type(getattr(spec.arg, "value", None)) in (int, float):
            fixed.append(f"{argument_name(node.name)} ({spec.arg.value})")
    if fixed:
        notes.append(
            f"method {name!r} takes only these values of {', '.join(fixed)}; what changes has to be"
            f" a tensor, or an int that is Dim.DYNAMIC in dynamic_shapes"
        )
    results = program.graph.output_node().args[0]
    values = [n.meta.get("val") if isinstance(n, torch.fx.Node) else n for n in results]
    specs = program.graph_signature.output_specs
    check_tensors(
        name,
        "output",
        [
            (str(i), v)
            for i, (v, s) in enumerate(zip(values, specs, strict=True))
            if s.kind is OutputKind.USER_OUTPUT
        ],
    )
