"""From a module to a program file, in one call.

    report = pteron.export(model, (x,), "model.pte")
    print(report)  # what was lowered where, sizes, how far from eager

What it does step by step: `torch.export.export`, `to_edge_transform_and_lower`, `to_executorch`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import os
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from pteron.exir.arguments import DEFAULT_METHOD
from pteron.exir.backend.partitioner import Partitioner
from pteron.exir.config import ExecutorchBackendConfig
from pteron.exir.explain import ProgramReport
from pteron.exir.program import (
    EdgeProgramManager,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)

Backends: TypeAlias = str | Partitioner | Sequence[str | Partitioner]

_BACKENDS = {"cpu": "Cpu", "cuda": "Cuda"}

_FORMS = (
    "a torch.nn.Module with a tuple of example inputs, an ExportedProgram, or a dict of methods,"
    ' each (module, inputs) or (module, inputs, dynamic_shapes): {"forward": (model, (x,))}'
)


class ExportError(ValueError):
    """What was given cannot be made into a program: what was found, expected, and what to try."""


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """What `export` did; `print` it for a table.

    Attributes:
      program: what was lowered where, and how far each method is from eager.
      files: what was written, with sizes in bytes; the program first.
      seconds: what each stage took.
      notes: what the caller may not have meant.
    """

    program: ProgramReport
    files: Mapping[str, int]
    seconds: Mapping[str, float]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [str(self.program)]
        lines += [f"wrote     {path}, {nbytes:,} bytes" for path, nbytes in self.files.items()]
        took = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.seconds.items())
        return "\n".join([*lines, f"took      {took}", *(f"note      {n}" for n in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """The same as plain dicts, lists, strings and numbers."""
        return dataclasses.asdict(self)


def export(
    model: Any,
    args: Any = None,
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    backend: Backends = "cpu",
    options: Mapping[str, Any] | None = None,
    config: ExecutorchBackendConfig | None = None,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> ExportReport:
    """Exports, lowers and checks a model, and writes it to a file.

    Args:
      model: a module, which is exported as its `eval()` has it; a bound method of one; an
        ExportedProgram; or a dict of methods, each one of these or a tuple of a module, its example
        inputs and, at will, its dynamic shapes. Methods of one module share weights and state.
      args: example inputs: a tuple, a dict by parameter, or one tensor. The lowered program is
        compared with eager on these.
      path: the program file, `*.pte`. What its options keep outside goes to a `.ptd` file beside
        it, of the same name.
      kwargs: example inputs by name, besides `args`.
      dynamic_shapes: as in torch.export.export; every Dim needs a `max`.
      backend: names ("cpu", "cuda") or partitioners, in the order in which they choose. What none
        takes is compiled for the CPU.
      options: of backends by name, as {"cpu.weights": "shared"}; see CpuOptions and CudaOptions.
      config: how the program is written, and whether it is compared.
      on_stage: called with the name of each stage before it begins.

    Raises:
      ExportError: what was given cannot be exported; nothing was written.
      VerificationError: the lowered program does not compute what eager does.
      UnsupportedOperatorsError: nothing here does some of the operators; all are listed.
      OSError: the file cannot be written.
    """
    if path is None:
        raise ExportError(
            "there is no path to write to.\n"
            'try:  pteron.export(model, (x,), "model.pte"), with the example inputs as a tuple'
        )
    check_path(path)
    partitioners = partitioners_of(backend, options or {})
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        on_stage(name)
        begin = time.monotonic()
        yield
        seconds[name] = time.monotonic() - begin

    with stage("export"):
        programs, notes = export_methods(model, args, kwargs, dynamic_shapes)
    with stage("lower"):
        edge: EdgeProgramManager = to_edge_transform_and_lower(programs, partitioner=partitioners)
    with stage("compile what is left and compare"):
        program = edge.to_executorch(config)
    with stage("save"):
        files = _save(program, Path(path))
    return ExportReport(program.explain(), files, seconds, notes)


def check_path(path: str | os.PathLike[str]) -> None:
    """Raises ExportError where a program could not be saved, before time is spent on it."""
    found = Path(path)
    if found.suffix != ".pte":
        raise ExportError(
            f"the program file is to be {os.fspath(path)!r}; expected a name that ends in .pte.\n"
            f"try:  {os.fspath(found.with_suffix('.pte'))!r}"
        )
    if not found.absolute().parent.is_dir():
        raise ExportError(
            f"{os.fspath(path)!r} cannot be written: there is no folder {str(found.parent)!r}.\n"
            f"try:  making it first (mkdir -p), or another path"
        )


def _save(program: ExecutorchProgramManager, path: Path) -> dict[str, int]:
    files = {path: program._chunks}
    data = program._tensor_data
    for tag, chunks in data.items():
        suffix = ".ptd" if len(data) == 1 else f".{tag}.ptd"
        files[path.with_suffix(suffix)] = chunks
    for file, chunks in files.items():
        chunks.save(file)
    return {str(file): chunks.nbytes for file, chunks in files.items()}


# ---- Methods.


def export_methods(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> tuple[dict[str, ExportedProgram], list[str]]:
    """Exported programs by method, and notes. ExportError lists all that is wrong."""
    if not isinstance(model, Mapping):
        model = {DEFAULT_METHOD: (model, args, dynamic_shapes)}
    elif args is not None or kwargs:
        raise ExportError(
            "a dict of methods and example inputs beside it were given; expected the inputs in the"
            ' dict.\ntry:  {"prefill": (model.prefill, (tokens,)), "decode": (model.decode, (t,))}'
        )
    elif dynamic_shapes is not None:
        unknown = [name for name in dynamic_shapes if name not in model]
        if unknown:
            raise ExportError(f"dynamic_shapes: {_unknown('method', unknown[0], model)}")
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
    for name, value in model.items():
        try:
            programs[name] = _export_method(str(name), value, kwargs or {}, notes)
        except ExportError as error:
            problems.append(str(error))
    if problems:
        raise ExportError("\n".join(problems))
    return programs, notes


def example_of(
    model: Any, method: str | None = None
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """What runs a method in eager, as it would be exported, and its example inputs."""
    if isinstance(model, Mapping):
        method = method or DEFAULT_METHOD
        if method not in model:
            raise ExportError(_unknown("method", method, model))
        model = model[method]
    method = method or DEFAULT_METHOD
    parts = model if isinstance(model, tuple) else (model,)
    if isinstance(parts[0], ExportedProgram):
        if parts[0].example_inputs is None:
            raise ExportError(f"method {method!r}: the exported program carries no example inputs")
        return parts[0].module(), *parts[0].example_inputs
    module, forward = _module_of(method, parts)
    module.eval()
    args, kwargs = _inputs(method, forward, parts[1] if len(parts) > 1 else None, {})
    return (module if forward == module.forward else forward), args, kwargs


def _export_method(
    name: str, value: Any, kwargs: Mapping[str, Any], notes: list[str]
) -> ExportedProgram:
    parts = value if isinstance(value, tuple) else (value,)
    target, args, shapes = (*parts, None, None, None)[:3]
    if isinstance(target, ExportedProgram):
        return target
    module, forward = _module_of(name, parts)
    positional, named = _inputs(name, forward, args, kwargs)
    if module.training:
        notes.append(
            f"the module of method {name!r} was in training mode; it was exported as its eval()"
            f" has it"
        )
    with _as_exported(module, forward):
        try:
            return torch.export.export(module, positional, named, dynamic_shapes=shapes)
        except Exception as error:
            raise ExportError(
                f"method {name!r}: torch.export does not take the model"
                f" ({type(error).__name__}):\n{str(error).strip()}{_hint(error, positional, named)}"
            ) from error


def _module_of(name: str, parts: tuple[Any, ...]) -> tuple[torch.nn.Module, Callable[..., Any]]:
    """A module and which of its methods is meant."""
    target: Any = parts[0] if parts else None
    module = getattr(target, "__self__", target)
    if not isinstance(module, torch.nn.Module) or len(parts) > 3:
        raise ExportError(
            f"method {name!r}: found {_described(parts)}; expected {_FORMS}."
            + (f"\ntry:  {target.__name__}(...), an instance" if inspect.isclass(target) else "")
        )
    return module, target if target is not module else module.forward


def _hint(error: Exception, *examples: Any) -> str:
    """What torch's message does not say."""
    single = [
        v for v in pytree.tree_leaves(examples) if isinstance(v, torch.Tensor) and 1 in v.shape
    ]
    if single and "specialized it to be a constant (1)" in str(error):
        return (
            "\ntry:  example inputs that are 2 or more where sizes may change: torch.export takes a"
            " size of 1 for a constant"
        )
    if "data-dependent" in str(error):
        return (
            "\ntry:  torch.where or torch.cond where the model decides by a tensor's values, at the"
            " line above"
        )
    return ""


@contextlib.contextmanager
def _as_exported(module: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """The module as torch.export is to see it: evaluating, and with the method as its forward."""
    modes = [(part, part.training) for part in module.modules()]
    own = vars(module).get("forward")
    module.eval()
    if forward != module.forward:
        module.forward = forward
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        if own is None:
            vars(module).pop("forward", None)
        else:
            module.forward = own


def _inputs(
    name: str, forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs by position and by name."""
    takes = f"{forward.__name__}{inspect.signature(forward)}"
    if isinstance(args, torch.Tensor):
        args = (args,)
    if isinstance(args, Mapping):
        args, kwargs = (), {**args, **kwargs}
    if args is None and kwargs:
        args = ()
    if not isinstance(args, tuple):
        found = "no example inputs" if args is None else f"example inputs in a {_kind(args)}"
        raise ExportError(
            f"method {name!r}: found {found}; expected a tuple of what {takes} is called with.\n"
            f"try:  (x,) for one input, with the comma; {{'name': x}} for inputs by name"
        )
    try:
        inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as error:
        raise ExportError(
            f"method {name!r}: found {len(args) + len(kwargs)} example inputs; expected those of"
            f" {takes} ({error})"
        ) from error
    arrays = [
        str(key)
        for key, value in [*enumerate(args), *kwargs.items()]
        if type(value).__module__.partition(".")[0] == "numpy"
    ]
    if arrays:
        raise ExportError(
            f"method {name!r}: example inputs {', '.join(arrays)} are of numpy; expected torch"
            f" tensors.\ntry:  torch.from_numpy(array)"
        )
    return args, dict(kwargs)


def _kind(value: object) -> str:
    return type(value).__name__


def _described(parts: tuple[Any, ...]) -> str:
    """What a method was given as, if it was not a module."""
    if len(parts) not in (1, 2, 3) or isinstance(parts[0], torch.nn.Module):
        return f"a tuple of ({', '.join(map(_kind, parts))})"
    return f"the class {parts[0].__name__}" if inspect.isclass(parts[0]) else f"a {_kind(parts[0])}"


# ---- Backends and their options.


def partitioners_of(backend: Backends, options: Mapping[str, Any]) -> list[Partitioner]:
    """Partitioners in order. Values of options may be texts, as on a command line."""
    chosen = [backend] if isinstance(backend, str | Partitioner) else list(backend)
    names = [name for name in chosen if isinstance(name, str)]
    problems = [_unknown("backend", name, _BACKENDS) for name in names if name not in _BACKENDS]
    values: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in options.items():
        name, _, option = key.partition(".")
        if name in values and option:
            values[name][option] = value
        else:
            problems.append(
                f"option {key!r} is not of a chosen backend ({', '.join(names) or 'none by name'});"
                f" expected BACKEND.OPTION, as cpu.weights"
            )
    partitioners = []
    for item in chosen:
        if not isinstance(item, str):
            partitioners.append(item)
        elif item in _BACKENDS:
            try:
                partitioners.append(_partitioner(item, values[item]))
            except ValueError as error:
                problems.append(str(error))
    if problems:
        raise ExportError("\n".join(problems))
    return partitioners


def _partitioner(backend: str, values: Mapping[str, Any]) -> Partitioner:
    import pteron

    try:
        options = getattr(pteron, f"{_BACKENDS[backend]}Options")
    except ImportError as error:
        raise ExportError(
            f"backend {backend!r}: {error}, or use //tools/pteron:pteron_cuda"
        ) from error
    types = typing.get_type_hints(options)
    known = {field.name: types[field.name] for field in dataclasses.fields(options)}
    problems, parsed = [], {}
    for name, value in values.items():
        if name not in known:
            problems.append(_unknown(f"option of {backend}", name, known))
            continue
        try:
            parsed[name] = _parsed(value, known[name])
        except ValueError as error:
            problems.append(f"{backend}.{name}: {error}")
    try:
        chosen = options(**parsed)
    except ValueError as error:
        problems.append(f"{backend}: {error}")
    if problems:
        raise ExportError("\n".join(problems))
    return getattr(pteron, f"{_BACKENDS[backend]}Partitioner")(chosen)


def _parsed(value: Any, wanted: Any) -> Any:
    """A text as a value of the option's type; anything else as it is."""
    if not isinstance(value, str) or wanted is str:
        return value
    if wanted is bool:
        if value not in ("true", "false"):
            raise ValueError(f"found {value!r}, expected true or false")
        return value == "true"
    if wanted is int:
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"found {value!r}, expected a whole number") from None
    if typing.get_origin(wanted) is tuple:
        return tuple(value.split(","))
    return value


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no {what} {name!r}{hint} Known: {', '.join(known)}"
