"""What callers give for a method: a module, or one of its methods."""

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizedModule

from pteron.exporter.errors import ExportError
from pteron.exporter.inputs import check_tensors
from pteron.exporter.script_modules import without_scripts

FORMS = (
    "a torch.nn.Module with a tuple of example inputs, an ExportedProgram, or a dict of methods,"
    ' each (module, inputs) or (module, inputs, dynamic_shapes): {"forward": (model, (x,))}'
)

#: What users wrap modules in, and where it has them.
_WRAPPERS: dict[type, str] = {
    torch.nn.parallel.DistributedDataParallel: "module",
    torch.nn.DataParallel: "module",
    OptimizedModule: "_orig_mod",  # of torch.compile
}


def module_of(name: str, parts: tuple[Any, ...]) -> tuple[torch.nn.Module, Callable[..., Any]]:
    """A module and the name of one of its methods."""
    target: Any = parts[0] if parts else None
    while isinstance(target, tuple(_WRAPPERS)):
        target = getattr(target, next(_WRAPPERS[of] for of in _WRAPPERS if isinstance(target, of)))
    module = getattr(target, "__self__", target)
    if not isinstance(module, torch.nn.Module) or len(parts) > 3:
        hint = _instead_of(target)
        raise ExportError(
            f"method {name!r}: found {_described(parts)}; expected {FORMS}."
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


def check_hashable(name: str, value: Any) -> None:
    """ExportError if a method's module has parts that torch cannot list, as it has them in sets."""
    target = value[0] if isinstance(value, tuple) and value else value
    waiting, seen = [getattr(target, "__self__", target)], set[int]()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, torch.nn.Module) or id(part) in seen:
            continue
        if type(part).__hash__ is None:
            raise ExportError(
                f"method {name!r}: found a module of the class {kind_of(part)}, which cannot be"
                f" hashed, since it defines __eq__ (as @dataclass does); expected one that can.\n"
                f"try:  @dataclass(eq=False), or __hash__ = nn.Module.__hash__ in the class"
            )
        seen.add(id(part))
        modules = vars(part).get("_modules")
        waiting += modules.values() if isinstance(modules, dict) else ()


def method_without_scripts(name: str, value: Any, seen: dict[int, torch.nn.Module]) -> Any:
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


def kind_of(value: object) -> str:
    return type(value).__name__


def _described(parts: tuple[Any, ...]) -> str:
    """A description of a method's value that is no module."""
    if len(parts) not in (1, 2, 3) or isinstance(parts[0], torch.nn.Module):
        return f"a tuple of ({', '.join(map(kind_of, parts))})"
    return (
        f"the class {parts[0].__name__}" if inspect.isclass(parts[0]) else f"a {kind_of(parts[0])}"
    )
