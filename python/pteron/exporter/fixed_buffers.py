"""What forward() reads in Python, which torch.export refuses: buffers (`if self.initialized:`), and
values in checks (`assert (x >= 0).all()`)."""

from __future__ import annotations

import dis
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

_READERS: dict[Any, Callable[[Any], Any]] = {
    torch.Tensor.__bool__: bool,
    torch.Tensor.__int__: int,
    torch.Tensor.__index__: int,
    torch.Tensor.__float__: float,
    torch.Tensor.item: lambda value: value,
}

#: Functions whose results are known if their arguments are.
_CONDITIONS = frozenset(
    getattr(torch.Tensor, name)
    for name in "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __invert__ __and__ __or__ __mod__"
    " eq ne lt le gt ge all any logical_not remainder".split()
)


class FixedBuffers(TorchFunctionMode):
    """Inside, Python reads the values that the module's buffers of one element had before, and
    checks of values pass: a condition whose one outcome is nothing but an error has the other.

    For torch.export with strict=False, while which the module has other tensors as its buffers.

    Attributes:
      read: value by name of those that were read.
      passed: file and line of each check.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._values = {
            name: buffer.detach().clone()
            for name, buffer in module.named_buffers()
            if buffer.numel() == 1 and buffer.device.type != "meta"
        }
        # Values by id of conditions on buffers, with the tensors, so that ids stay theirs.
        self._conditions: dict[int, tuple[torch.Tensor, torch.Tensor, list[str]]] = {}
        self.read: dict[str, bool | int | float | complex] = {}
        self.passed: dict[str, None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _READERS:
            if known := self._known(args[0]):
                value, names = known
                self.read.update((name, self._values[name].item()) for name in names)
                return _READERS[func](value.item())
            if func is torch.Tensor.__bool__:
                frame = _caller()
                passing = None if frame is None else _passing(frame)
                if frame is not None and passing is not None:
                    file = os.path.basename(frame.f_code.co_filename)
                    self.passed[f"{file}:{frame.f_lineno}"] = None
                    return passing
        result = func(*args, **(kwargs or {}))
        if func in _CONDITIONS and not kwargs:
            values = [
                self._known(arg) if isinstance(arg, torch.Tensor) else (arg, []) for arg in args
            ]
            found = [value for value in values if value is not None]
            if len(found) == len(values):
                with _disable_current_modes():
                    value = func(*(value for value, _ in found))
                names = [name for _, names in found for name in names]
                self._conditions[id(result)] = result, value, names
        return result

    def _known(self, tensor: torch.Tensor) -> tuple[Any, list[str]] | None:
        """The value of a buffer or a condition, and the names of the buffers that it is of."""
        if id(tensor) in self._conditions:
            return self._conditions[id(tensor)][1:]
        for name, buffer in self._module.named_buffers():
            if buffer is tensor and name in self._values:
                return self._values[name], [name]
        return None

    def check(self, program: torch.export.ExportedProgram) -> None:
        """ValueError: the program changes what it was made for."""
        signature = program.run_decompositions({}).graph_signature
        changed = sorted(self.read.keys() & signature.buffers_to_mutate.values())
        if changed:
            raise ValueError(
                f"forward() changes {', '.join(changed)}, which Python reads in it: data-dependent"
                " control flow"
            )


def _caller() -> FrameType | None:
    """The frame that called a function of torch."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return frame


def _passing(frame: FrameType) -> bool | None:
    """The value with which a condition that the frame evaluates does not end in an error; None if
    no outcome is an error alone."""
    code = list(dis.get_instructions(frame.f_code))
    later = itertools.dropwhile(lambda step: step.offset < frame.f_lasti, code)
    jump = next((step for step in itertools.islice(later, 2) if "POP_JUMP" in step.opname), None)
    if jump is None or not jump.opname.endswith(("TRUE", "FALSE")):
        return None
    jumps_if = jump.opname.endswith("TRUE")
    if _raises(code, jump.offset + 1, _rest(code, jump.argval)):
        return jumps_if
    if _raises(code, jump.argval, None):
        return not jumps_if
    return None


def _rest(code: Sequence[dis.Instruction], offset: int) -> tuple[int | str, ...]:
    """What runs from an offset on, if it is a return alone, of which Python makes several; else the
    offset."""
    rest = [step for step in code if step.offset >= offset][:2]
    if rest[0].opname.startswith("RETURN"):
        rest = rest[:1]
    if not rest[0].opname.startswith(("LOAD", "RETURN")) or "RETURN" not in rest[-1].opname:
        return (offset,)
    return tuple(f"{step.opname} {step.argrepr}" for step in rest)


def _raises(
    code: Sequence[dis.Instruction], begin: int, passing: tuple[int | str, ...] | None
) -> bool:
    """Whether instructions end in an error, but for jumps to where the condition passes."""
    for step in code:
        if step.offset < begin:
            continue
        if step.opname == "RAISE_VARARGS":
            return True
        if step.opname.startswith("RETURN"):
            return False
        if "JUMP" in step.opname and _rest(code, step.argval) != passing:
            return False
    return False
