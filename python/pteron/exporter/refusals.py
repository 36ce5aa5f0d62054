"""Why a model cannot be exported: what it, or torch.export, raises, with a remedy."""

import contextlib
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, uninteresting_files

from pteron.exporter.errors import ExportError

# Prefixes of lines in torch's messages that are for torch developers.
_INTERNAL = (
    "Caused by: (",
    "For C++ stack trace",
    "For extended logs",
    "For more debugging help",
    "For more information about this error, see",
    "For more information, run with TORCH_LOGS",
    "If you suspect the guard",
    "The error above occurred when calling torch.export",
    "Use tlparse",
    "consider using data-dependent friendly APIs",
)

# Fragments of messages, and hints that they lack.
_HINTS = {
    "with CUDA enabled": "device=x.device, or register_buffer, instead of 'cuda' in the model;"
    " backend='cuda' sets the program's device",
    "support for cuda": "no .to('cuda') in the model; backend='cuda' sets the device",
    "same device": "device=x.device for tensors that the model makes, or register_buffer",
    "the expected device": "device=x.device for tensors that the model makes, or register_buffer",
    "Could not extract specialized": "an int as the argument for what is fixed (loops, layers);"
    " torch.where or torch.cond for control flow that depends on tensor values",
    "data-dependent": "torch.where or torch.cond for control flow that depends on tensor values, at"
    " the line above; torch._check(n <= 64) for a size",
    "aten.equal": "torch.where or torch.cond for control flow that depends on tensor values; a"
    " comparison of a tensor with itself is known",
    "expected predicate to be bool": "a mask of bools, mask.bool()",
    "found a fake tensor in the exported program constant": "a parameter or buffer itself, not its"
    " .data, under torch.no_grad() where forward writes it",
    "was not packed in forward()": "the padded tensor and its lengths as inputs, and"
    " pack_padded_sequence in forward()",
    ".numpy()": "functions of torch instead of numpy's: torch.export traces only those; lengths for"
    " pack_padded_sequence as a tensor",
    "Cache'> in output": "model.config.use_cache = False, or a StaticCache that is state of the"
    " module, as transformers' TorchExportableModuleWithStaticCache has it",
    "not a known type": "a tensor, a tuple, a list or a dict as what the model returns; or"
    " torch.export.register_dataclass(TYPE)",
    "Unsupported input type": "a tuple, a list or a dict; or torch.export.register_dataclass(TYPE)",
    "Unexpected dimension mapped": "torch.export.Dim('batch', min=1, max=8) for what may change",
    "top-level keys must be": "a tuple with an entry for each input, ({0: Dim('batch', max=8)},)",
    "structure of `inputs` and `dynamic_shapes`": "an entry for each input, None for those without:"
    " ({0: Dim('batch', max=8)}, None)",
    "the actual tensor shape": "a dict by dimension, {0: Dim('batch', max=8)}",
    "_IntWrapper": "None in dynamic_shapes for inputs that are no tensors",
    "input integers as dynamic": "torch.export.Dim.DYNAMIC for the int in dynamic_shapes, and"
    " torch._check(n <= 8) in the model",
    "not in range [": "example inputs whose sizes are in the ranges of dynamic_shapes",
    "export 0/1 specialized": "example inputs that are 2 or more where sizes may"
    " change: torch.export takes a size of 1 for a constant",
    "specialized it to be a constant": "x.shape[0] instead of this constant in the model (in view,"
    " reshape, expand), no int() of a size, no loop over it, no comparison with another; or no Dim"
    " for this dimension",
    "must always be equal": "one Dim for both: batch = Dim('batch', max=8)",
    "Specializations unexpectedly required": "no Dim for this dimension; or no Python number of its"
    " size in the model, as by int(), math.ceil() and numpy: chunks of n rows are x.split(n)",
    "Suggested fixes": "dynamic_shapes with these fixes; or a call of the largest size first, if a"
    " table of the model grows with it",
    'required "forward" function': "a module that defines forward(self, x), which calls its parts",
    "does not require grad": "example inputs with requires_grad_(True) for what it differentiates"
    " by, which some models ask for only where they are not exported",
    "unhashable type: non-nested SymInt": "no dict and no functools.cache by a size in the model",
    "type SymInt which has no callable": "functions of torch or math of sizes, not of numpy",
    "dtype": "inputs of the model's dtype, as x.float() or x.half()",
    "scalar types: Long": "indices as integers, ids.long()",
}


def refusal(
    name: str,
    error: Exception,
    what: str,
    run: Callable[[], object] | None = None,
    others: Mapping[str, Exception] = MappingProxyType({}),
) -> ExportError:
    """What a method's export ends with.

    Args:
      name: of the method.
      error: what was raised.
      what: did so; used if the model itself does not raise.
      run: calls the model with its example inputs, in eager.
      others: what other ways to export it, by description, raised.
    """
    try:
        if run is not None:
            run()
    except Exception as own:
        error, what, others = own, "the model itself fails on its example inputs", {}
    text = short(error)
    if "line " not in text:
        frames = traceback.extract_tb(error.__traceback__)
        text += _place(frames) or "".join(getattr(error, "__notes__", ()))
    other = "model(*inputs) first, which has to work"
    if "itself" not in what:
        other = (
            "the model without that; torch.export.export(model, inputs) shows all of torch's error"
        )
    hint = next((hint for part, hint in _HINTS.items() if part in str(error)), other)
    text += "".join(f"\nwith {way}: {first_line(found)}" for way, found in others.items())
    return ExportError(f"method {name!r}: {what} ({type(error).__name__}):\n{text}\ntry:  {hint}")


def first_line(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    return f"{type(error).__name__}: {short(error).partition(chr(10))[0]}"


def short(error: Exception) -> str:
    """torch's message without lines for its developers, and without blank ones."""
    text, _, executing = str(error).partition("\n\nWhile executing %")
    lines = [line for line in text.splitlines() if line.strip()]
    lines += [line for line in executing.splitlines() if "File " in line and not _is_torchs(line)]
    lines = [
        re.sub(r"(! )?For more information, run with TORCH_LOGS.*", "", line) for line in lines
    ]
    return "\n".join(line for line in lines if line and not line.startswith(_INTERNAL))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch.export logs before it raises, unless TORCH_LOGS asks for it."""
    found = [n for n in logging.root.manager.loggerDict if n.split(".")[0] == "torch"]
    handlers = {handler for name in found for handler in logging.getLogger(name).handlers}
    levels = [(handler, handler.level) for handler in handlers if "TORCH_LOGS" not in os.environ]
    for handler, _ in levels:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in levels:
            handler.setLevel(level)


@contextlib.contextmanager
def places_of_constants() -> Iterator[None]:
    """Notes in an error the line that first made a dynamic size constant, which torch only logs;
    and torch takes no line of ours for one of the model."""
    uninteresting_files().update(_OURS + name for name in os.listdir(_OURS))
    places: list[str] = []
    replace = ShapeEnv._set_replacement

    def recording(env: ShapeEnv, symbol: Any, value: Any, *args: Any) -> None:
        if value.is_number and not places:
            places.extend(filter(None, [_place(traceback.extract_stack()[:-1])]))
        replace(env, symbol, value, *args)

    with mock.patch.object(ShapeEnv, "_set_replacement", recording):
        try:
            yield
        except Exception as error:
            if places and "specialized it to be a constant" in str(error):
                error.add_note(f"\nwhich happens at{places[0]}")
            raise


_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(__file__) + os.sep


def _is_torchs(line: str) -> bool:
    return _TORCH in line or '"<' in line


def is_models(file: str) -> bool:
    """Whether code is neither torch's nor ours."""
    return not file.startswith((_TORCH, _OURS, "<"))


def _place(frames: Sequence[traceback.FrameSummary]) -> str:
    """The last line of the model's own code."""
    for frame in reversed(frames):
        if frame.filename.startswith(_OURS) and frame.name != "__torch_function__":
            break
        if is_models(frame.filename):
            place = f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
            return f"\n  {place}\n    {frame.line}"
    return ""
