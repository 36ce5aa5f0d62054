"""A model named as FILE.py:function or FILE.pt2."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from absl import flags

from pteron.command.usage import Flags, UsageError, nearest, pairs

if TYPE_CHECKING:  # torch is imported when a model is, not for --help
    from pteron.exir.backend.partitioner import Partitioner

FORM = """
FILE.py:function names a function without arguments that returns a module and its example inputs,

    def build():
        return Model().eval(), (torch.randn(1, 3, 224, 224),)

or the same with dynamic shapes as torch.export has them as a third value, or an ExportedProgram, or
a dict of methods, each one of these: {"prefill": (model.prefill, (x,)), "decode": ...}.

FILE.pt2, which torch.export.save wrote, can be given instead."""


def define_flags(values: Flags) -> None:
    """Options of export and lowering."""
    values.list(
        "backend", ["cpu"], "cpu, cuda or metal, or several in the order in which they choose."
    )
    values.multi_string(
        "option",
        [],
        "BACKEND.OPTION=VALUE, as cpu.weights=shared; may be repeated. What there is, an unknown"
        " one lists.",
    )
    values.multi_string(
        "dynamic",
        [],
        "[METHOD/]INPUT.DIM=[NAME:]MIN..MAX, as image.0=1..8: a dimension that may change;"
        " dimensions of one NAME are equal. May be repeated.",
    )


def partitioners(values: flags.FlagValues) -> list[Partitioner]:
    """Partitioners of --backend, with --option."""
    from pteron.exporter import partitioners_of

    return partitioners_of(values.backend, pairs("option", values.option))


def methods(model: str, values: flags.FlagValues) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The function's result by method, and the dynamic shapes of --dynamic."""
    from pteron.command.dynamic import dynamic_shapes
    from pteron.exir.arguments import DEFAULT_METHOD

    built = build(model)
    by_method = built if isinstance(built, Mapping) else {DEFAULT_METHOD: built}
    return by_method, dynamic_shapes(by_method, values.dynamic)


def build(name: str) -> Any:
    """Calls the function, or reads the ExportedProgram.

    Raises:
      UsageError: there is no such file or function.
      ExportError: the file or the function raises; the message has the traceback from the file on.
    """
    import torch

    from pteron.exporter import ExportError
    from pteron.exporter.refusals import quiet

    is_exported = name.endswith(".pt2")
    file, colon, function = (name, ":", "load") if is_exported else name.rpartition(":")
    if not colon or not function:
        raise UsageError(
            f"found {name!r}; expected FILE.py:function, as model.py:build, which makes the module"
            f" and loads its weights, or FILE.pt2, which torch.export.save wrote"
        )
    path = Path(file)
    if not path.is_file():
        pattern = "*.pt2" if is_exported else "*.py"
        near = sorted(p.name for p in path.absolute().parent.glob(pattern))
        raise UsageError(nearest("file", path.name, near))
    if is_exported:
        try:
            with quiet():
                return torch.export.load(path)
        except Exception as error:
            raise ExportError(
                f"{name} is not read by torch.export.load ({type(error).__name__}): {error}\n"
                f"try:  torch.export.save(program, ...) with this torch, {torch.__version__}; a"
                f" package of AOTInductor has no program any more"
            ) from error
    module = _load(path)
    found = vars(module).get(function)
    if not callable(found):
        # Functions defined in the file itself.
        own = [
            n
            for n, v in vars(module).items()
            if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        raise UsageError(f"{file}: {nearest('function', function, own)}")
    needed = [p.name for p in _parameters(found) if p.default is p.empty and p.kind not in _REST]
    if isinstance(found, torch.nn.Module) or needed:
        what = f"a {type(found).__name__}" if not needed else f"one that takes {', '.join(needed)}"
        raise UsageError(
            f"{file}: {function} is {what}; expected a function without arguments that returns a"
            f" module and its example inputs"
        )
    try:
        return found()
    except Exception as error:
        raise ExportError(_raised(path, f"{function}()", error)) from error


def _load(path: Path) -> Any:
    from pteron.exporter import ExportError

    spec = importlib.util.spec_from_file_location(path.stem, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # As for `python FILE.py`: neighbouring modules can be imported, and classes find their module.
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ExportError(_raised(path, str(path), error)) from error
    return module


_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(function: Any) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except ValueError:  # of invalid Python source
        return ()


def _raised(path: Path, what: str, error: Exception) -> str:
    """The traceback from the first line of the model's own file on."""
    if isinstance(error, SyntaxError):
        text = "".join(traceback.format_exception_only(error)).rstrip()
        return f"{what} is not Python:\n{text}"
    frames: TracebackType | None = error.__traceback__
    own = os.path.abspath(path)
    while frames is not None and frames.tb_frame.f_code.co_filename != own:
        frames = frames.tb_next
    lines = traceback.format_exception(
        type(error), error, frames or error.__traceback__, chain=False
    )
    no_gpu = "Torch not compiled with CUDA" in str(error) or "No CUDA GPUs" in str(error)
    hint = "\ntry:  the model on the CPU; --backend=cuda sets the program's device" * no_gpu
    return f"{what} raised {type(error).__name__}:\n{''.join(lines).rstrip()}{hint}"
