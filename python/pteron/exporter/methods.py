"""Converts the caller's methods to exported programs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
import torch.backends.opt_einsum as opt_einsum
from torch._dynamo.eval_frame import OptimizedModule
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.export import ExportedProgram
from torch.export._trace import _export
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.modules import transformer
from torch.utils import _pytree as pytree

from pteron.exir.arguments import DEFAULT_METHOD
from pteron.exir.graph.exported_program import (
    argument_name,
    check_constants,
    constant_tensor,
)
from pteron.exir.operators.decompositions import join_aliases
from pteron.exir.operators.flex_attention import decompose_flex_attention
from pteron.exir.operators.library_operators import any_number_of_kept_boxes
from pteron.exir.operators.quantized_matmul import use_int_mm
from pteron.exir.operators.recurrent_layers import whole_recurrent_layers
from pteron.exir.operators.written_parameters import written_parameters_as_buffers
from pteron.exir.verification.call import call
from pteron.exir.verification.reference import Reference
from pteron.exporter.caches import register_caches
from pteron.exporter.errors import ExportError, unknown
from pteron.exporter.fixed_buffers import FixedBuffers
from pteron.exporter.inputs import (
    check_dimensions,
    check_tensors,
    distinct,
    inputs_of,
    register_dataclasses,
    shapes_for,
    with_named_keywords,
)
from pteron.exporter.modules import (
    as_exported,
    evaluate,
    returning_detached,
    run_module,
    shared_buffers,
    storage_of,
    storages_of,
)
from pteron.exporter.packed_sequences import padded_sequences
from pteron.exporter.refusals import first_line, places_of_constants, quiet, refusal
from pteron.exporter.script_modules import without_scripts
from pteron.exporter.sizes import (
    ComparedSizes,
    DynamicSizes,
    all_are_dims,
    roots,
    with_sizes,
    without_ones,
)

_FORMS = (
    "a torch.nn.Module with a tuple of example inputs, an ExportedProgram, or a dict of methods,"
    ' each (module, inputs) or (module, inputs, dynamic_shapes): {"forward": (model, (x,))}'
)

#: What users wrap modules in, and where it has them.
_WRAPPERS: dict[type, str] = {
    torch.nn.parallel.DistributedDataParallel: "module",
    torch.nn.DataParallel: "module",
    OptimizedModule: "_orig_mod",  # of torch.compile
}

#: Tolerated difference between exported program and module, relative to the largest value; and
#: that in roundings of the model's dtype.
_SAME, _ROUNDINGS = 1e-3, 4

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
        raise ExportError(f"found an empty dict of methods; expected {_FORMS}")
    programs: dict[str, ExportedProgram] = {}
    problems: list[str] = []
    notes: list[str] = []
    shared = {key for value in model.values() for key in shared_buffers(value)}
    seen: dict[int, torch.nn.Module] = {}
    for name, value in model.items():
        try:
            value = _without_scripts(str(name), value, seen)
            programs[name] = _export_method(
                str(name), value, kwargs or {}, strict, shared, run, notes
            )
            if run:
                outputs, written = _check_runs(str(name), value, programs[name])
                generators = any(
                    isinstance(held, torch.Generator) for held in programs[name].constants.values()
                )
                if generators:
                    notes.append(
                        f"method {name!r} takes random values from the runtime, not from the"
                        f" torch.Generator of the model"
                    )
                elif outputs:
                    notes += _differences(str(name), value, programs[name], outputs, written)
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
        f"{name!r} holds a {_kind(leaf)}"
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
    module, forward = _module_of(method, parts)
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
    module, forward = _module_of(name, parts)
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
    program, refused = None, dict[str, Exception]()
    # The third way traces below autograd, not above: what forward() differentiates is in the graph.
    # The last two do not let comparisons of sizes make these constant.
    for way, fixes, below, otherwise in (
        (False, False, False, None),
        (False, True, False, None),
        (True, False, False, None),
        (False, True, True, None),
        (False, False, False, False),
        (False, False, False, True),
    ):
        if strict not in (None, way):
            continue
        before = refused.get("strict=False")
        reads = isinstance(before, GuardOnDataDependentSymNode | DataDependentOutputException)
        if fixes and reads is below:
            continue
        sizes = "Constraints violated" in str(before) and all_are_dims(shapes)
        if otherwise is not None and not sizes:
            continue
        entered = returning_detached(forward) if below else forward
        compared = None if otherwise is None else ComparedSizes(otherwise)
        with as_exported(module, entered, shared):
            fixed = FixedBuffers(module) if fixes else None
            printed = io.StringIO()  # a graph, where it fails
            try:
                redirected = contextlib.redirect_stderr(printed)
                with (
                    quiet(),
                    places_of_constants(),
                    redirected,
                    whole_recurrent_layers(),
                    any_number_of_kept_boxes(),
                    unchecked_distributions(),
                    # It makes ints of sizes.
                    opt_einsum.flags(enabled=False)
                    if shapes and opt_einsum.enabled
                    else contextlib.nullcontext(),
                    masks_of_values() if fixes else contextlib.nullcontext(),
                    padded_sequences(all_steps=fixes) as packed,
                    compared.followed() if compared else contextlib.nullcontext(),
                    contextlib.nullcontext() if way or not shapes else DynamicSizes(),
                    fixed or contextlib.nullcontext(),
                ):
                    export = _export if below else torch.export.export
                    program = export(module, positional, named, dynamic_shapes=shapes, strict=way)
                check_constants(program)
                check_tensors(name, "weight", program.constants.items())
                if fixed:
                    fixed.check(program)
                if compared and (
                    not compared.can_be_tried()
                    or not _is_right(program, module, forward, compared.candidates(inputs, shapes))
                ):
                    program = None
                    continue
                break
            except ExportError:
                raise
            except Exception as error:
                program = None
                # Values that Python reads may not be all that torch.export does not take.
                if not below and not compared:
                    refused[f"strict={way}"] = error
    if program is None:
        first, *others = refused.items()
        run = functools.partial(
            run_module, module, forward, (positional, named), storages_of(module)
        )
        what = "torch.export does not take the model"
        raise refusal(name, first[1], what, run, dict(others)) from first[1]
    if fixed:
        values = ", ".join(f"{buffer} ({value})" for buffer, value in fixed.read.items())
        if values:
            notes.append(
                f"method {name!r} reads buffers in Python: the program is for these values of"
                f" {values}"
            )
        if fixed.passed:
            notes.append(
                f"method {name!r} checks values in Python, and the program does not:"
                f" {', '.join(fixed.passed)}"
            )
        if fixed.equal:
            notes.append(
                f"method {name!r} compares tensors that are computed alike, at"
                f" {', '.join(fixed.equal)}: the program takes them for equal, also where they are"
                f" NaN"
            )
        if any("longest" in vars(lengths) for lengths in packed):
            notes.append(
                f"method {name!r} packs sequences, and takes only lengths of which the largest is"
                f" the padded length"
            )
    elif compared:
        notes.append(
            f"method {name!r} compares sizes that may change, at {', '.join(compared.places)}: the"
            f" program does not, and was compared with the model for sizes near all that these are"
            f" compared with"
        )
    elif refused:
        notes.append(
            f"method {name!r} was exported with strict=True; with strict=False torch.export raises"
            f" {first_line(refused['strict=False'])}"
        )
    sys.stderr.write(printed.getvalue())
    _check_values(name, program, notes)
    dense = (buffer for buffer in module.buffers() if buffer.layout is torch.strided)
    compares = compares and sum(buffer.nbytes for buffer in dense) < _MOST
    for dim, (of, size) in roots(inputs, shapes).items() if compares else ():
        one = with_sizes(inputs, shapes, {dim: 1})
        with contextlib.suppress(Exception):  # neither may run with that
            if of.min < 2 <= size and not _is_right(program, module, forward, [one]):
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


@contextlib.contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Inside, torch.distributions do not look at their parameters, which no graph can decide by."""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(before)


@contextlib.contextmanager
def masks_of_values() -> Iterator[None]:
    """Inside, torch's transformers do not ask whether a mask is the causal one, if that is not
    known: they compute the same with any."""
    detect = transformer._detect_is_causal_mask

    def is_causal(*args: Any) -> bool:
        try:
            return detect(*args)
        except GuardOnDataDependentSymNode:
            return False

    with mock.patch.object(transformer, "_detect_is_causal_mask", is_causal):
        yield


def _is_right(
    program: ExportedProgram,
    module: torch.nn.Module,
    forward: Callable[..., Any],
    candidates: Iterable[inspect.BoundArguments],
) -> bool:
    """Whether a program computes what the module does on each of some inputs."""
    written = storages_of(module)
    for inputs in candidates:
        given = inputs.args, inputs.kwargs
        try:
            expected = run_module(module, forward, given, written)[0]
        except Exception:
            continue  # the model does not take such sizes
        with (
            as_exported(module, forward, written),
            torch.no_grad(),
            torch.random.fork_rng(devices=[]),
        ):
            found = program.module()(*inputs.args, **inputs.kwargs)
        pairs = [*map(pytree.tree_leaves, (found, expected))]
        shapes = [[getattr(leaf, "shape", None) for leaf in leaves] for leaves in pairs]
        if shapes[0] != shapes[1] or _distance(*pairs) > _SAME:
            return False
    return True


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


def _check_runs(name: str, value: Any, program: ExportedProgram) -> tuple[list[Any], set[int]]:
    """The flat outputs on the example inputs, and the storages of the buffers that the program
    writes; nothing if this machine cannot run it.

    Raises:
      ExportError: the model fails on these; torch.export does not check all dtypes.
    """
    reference = Reference(program, program)
    if reference.obstacle:
        return [], set()
    buffers: dict[int, list[torch.Tensor]] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.BUFFER:
            buffer = constant_tensor(program, spec).detach()
            buffers.setdefault(storage_of(buffer), []).append(buffer)
    kept: dict[int, list[torch.Tensor]] = {}
    try:
        with torch.random.fork_rng(devices=[]):
            keeping = functools.partial(_Keeping, buffers=buffers, kept=kept)
            outputs = call(program, reference.inputs(), {}, keeping)
            # Some may be the buffers that are put back.
            return pytree.tree_map_only(torch.Tensor, torch.clone, outputs), set(kept)
    except NotImplementedError:
        return [], set()  # an operator that exists only on the target GPU
    except Exception as error:
        what = "what torch.export made of the model fails on its example inputs"
        is_module = not isinstance(
            (value[0] if isinstance(value, tuple) else value), ExportedProgram
        )
        run = functools.partial(_eager, name, value, program) if is_module else None
        raise refusal(name, error, what, run) from error
    finally:
        for key, values in kept.items():
            for buffer, value in zip(buffers[key], values, strict=True):
                buffer.copy_(value)


class _Keeping(torch.fx.Interpreter):
    """Runs a graph and fills `kept` with copies of buffers before an operator may write them. Both
    are by storage."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        buffers: Mapping[int, list[torch.Tensor]],
        kept: dict[int, list[torch.Tensor]],
    ) -> None:
        super().__init__(module)
        self._buffers, self._kept = buffers, kept

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        writes = getattr(getattr(target, "_schema", None), "is_mutable", False)
        if writes or isinstance(target, torch._ops.HigherOrderOperator):
            for value in pytree.tree_leaves((args, kwargs)):
                key = storage_of(value) if isinstance(value, torch.Tensor) else 0
                if key in self._buffers and key not in self._kept:
                    self._kept[key] = [buffer.clone() for buffer in self._buffers[key]]
        return super().call_function(target, args, kwargs)


def _differences(
    name: str,
    value: Any,
    program: ExportedProgram,
    exported: Sequence[Any],
    written: set[int],
) -> list[str]:
    """Notes if the module's outputs differ from `exported` on the example inputs (some models
    compute something else under export), and if it changes attributes."""
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(parts[0], ExportedProgram):
        return []
    try:
        returned, changed = _eager(name, value, program, written)
    except Exception:
        return []  # as a module; it could be exported
    notes = []
    if changed:
        notes.append(
            f"method {name!r} sets {', '.join(changed)} of the module in a call, and the program"
            f" does not; state is a registered buffer that is changed in place, as by copy_()"
        )
    worst = _distance(exported, pytree.tree_leaves(returned))
    tensors = [*_module_of(name, parts)[0].parameters(), *pytree.tree_leaves(returned)]
    dtypes = {leaf.dtype for leaf in tensors if isinstance(leaf, torch.Tensor)}
    eps = max(
        (torch.finfo(t).eps for t in dtypes if t.itemsize > 1 and t.is_floating_point), default=0
    )
    if worst <= max(_SAME, _ROUNDINGS * eps):
        return notes
    return [
        *notes,
        f"method {name!r}: what torch.export made of the model differs from the model itself, by"
        f" {worst:.1e} of the largest value on the example inputs, before anything is lowered;"
        f" models may ask whether they are being exported (torch.compiler.is_exporting())",
    ]


def _distance(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference, relative to the largest value of its tensor; of tensors of one
    shape."""
    worst = 0.0
    for of, to in zip(found, expected, strict=False):
        if isinstance(to, torch.Tensor) and to.numel():
            wide = torch.complex128 if to.is_complex() else torch.float64
            of, to = of.detach().cpu().to(wide), to.detach().cpu().to(wide)
            if of.shape == to.shape:
                error = (of - to).abs().nan_to_num(0, 0, 0).max()
                worst = max(worst, float(error / (to.abs().nan_to_num(0, 0, 0).max() or 1)))
    return worst


def _eager(
    name: str, value: Any, program: ExportedProgram, written: Collection[int] | None = None
) -> tuple[Any, list[str]]:
    """`run_module` of a method's module on the program's example inputs."""
    module, forward = _module_of(name, value if isinstance(value, tuple) else (value,))
    written = storages_of(module) if written is None else written
    return run_module(module, forward, program.example_inputs, written)


def _module_of(name: str, parts: tuple[Any, ...]) -> tuple[torch.nn.Module, Callable[..., Any]]:
    """A module and the name of one of its methods."""
    target: Any = parts[0] if parts else None
    while isinstance(target, tuple(_WRAPPERS)):
        target = getattr(target, next(_WRAPPERS[of] for of in _WRAPPERS if isinstance(target, of)))
    module = getattr(target, "__self__", target)
    if not isinstance(module, torch.nn.Module) or len(parts) > 3:
        hint = _instead_of(target)
        raise ExportError(
            f"method {name!r}: found {_described(parts)}; expected {_FORMS}."
            + (f"\ntry:  {hint}" if hint else "")
        )
    for path, part in module.named_modules():
        where = f" at {path!r}" if path else ""
        if type(part).__module__.startswith("torch.ao.nn.quantized"):
            raise ExportError(
                f"method {name!r}: found a {type(part).__name__}{where}, quantized by torch.ao;"
                f" expected a float module.\ntry:  torchao.quantization.quantize_(model, ...)"
            )
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise ExportError(
            f"method {name!r}: the module has weights on the device 'meta', which are none.\n"
            f"try:  model.to_empty(device='cpu'), and then load_state_dict"
        )
    dense = [item for item in module.named_buffers() if item[1].layout is torch.strided]
    check_tensors(name, "weight", [*module.named_parameters(), *dense])
    return module, target if target is not module else module.forward


def _without_scripts(name: str, value: Any, seen: dict[int, torch.nn.Module]) -> Any:
    """A method whose module has no ScriptModules."""
    target, *rest = value if isinstance(value, tuple) and value else (value,)
    module = getattr(target, "__self__", target)
    if not isinstance(module, torch.nn.Module):
        return value
    try:
        replaced = without_scripts(module, seen)
    except ExportError as error:
        raise ExportError(f"method {name!r}: {error}") from error
    if replaced is module:
        return value
    return (replaced if target is module else getattr(replaced, target.__name__), *rest)


def _instead_of(target: Any) -> str:
    """A hint for an object that is no module."""
    if inspect.isclass(target):
        return f"{target.__name__}(...), an instance"
    if target is None:
        return "return module, (x,), if a function was to make them"
    if isinstance(target, tuple):
        return "the module first: (module, (x,))"
    if isinstance(target, str | os.PathLike) and os.fspath(target).endswith(".pt2"):
        return "torch.export.load(file)"
    if isinstance(target, str | os.PathLike):
        return "the module that the file is a checkpoint of, with load_state_dict(torch.load(file))"
    if callable(target):
        return "a torch.nn.Module whose forward calls it"
    return ""


def _kind(value: object) -> str:
    return type(value).__name__


def _described(parts: tuple[Any, ...]) -> str:
    """A description of a method's value that is no module."""
    if len(parts) not in (1, 2, 3) or isinstance(parts[0], torch.nn.Module):
        return f"a tuple of ({', '.join(map(_kind, parts))})"
    return f"the class {parts[0].__name__}" if inspect.isclass(parts[0]) else f"a {_kind(parts[0])}"
