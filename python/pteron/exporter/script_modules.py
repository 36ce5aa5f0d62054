"""Modules of TorchScript, also inside others: torch.export traces what runs in them, not them."""

import copy
import inspect
from typing import Any

import torch

from pteron.exporter.errors import ExportError


def without_scripts(module: Any, seen: dict[int, torch.nn.Module], path: str = "") -> Any:
    """The module with its ScriptModules replaced, in copies of those that have them, which share
    weights and state; others are returned as they are. `seen` has what was replaced before."""
    if id(module) in seen:
        return seen[id(module)]
    if isinstance(module, torch.jit.ScriptModule):
        seen[id(module)] = _Scripted(module, path)
        return seen[id(module)]
    parts = {
        name: without_scripts(part, seen, f"{path}.{name}".lstrip("."))
        for name, part in module.named_children()
    }
    if all(module._modules[name] is part for name, part in parts.items()):
        return module
    seen[id(module)] = copied = copy.copy(module)
    vars(copied)["_modules"] = {**module._modules, **parts}
    return copied


class _Scripted(torch.nn.Module):
    """Runs a ScriptModule, whose weights are constants."""

    def __init__(self, module: torch.jit.ScriptModule, path: str) -> None:
        super().__init__()
        modes = [(part, part.training) for part in module.modules()]
        try:
            frozen = torch.jit.freeze(module.eval(), optimize_numerics=False)
        except RuntimeError as error:
            raise ExportError(
                f"{_found(path)}, which torch.jit.freeze refuses:\n{error}"
            ) from error
        finally:
            for part, mode in modes:
                part.training = mode
        if [*frozen.buffers(), *frozen.parameters()] or "prim::SetAttr" in str(
            frozen.inlined_graph
        ):
            raise ExportError(
                f"{_found(path)}, which has state that it changes, and whose Python code is gone.\n"
                f"try:  the module that torch.jit.script or torch.jit.trace was given"
            )

        def forward(*args: Any, **kwargs: Any) -> Any:
            # What is optimized for real tensors cannot be traced.
            with torch.jit.optimized_execution(False):
                return frozen.forward(*args, **kwargs)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [
            inspect.Parameter(
                taken.name,
                kind,
                default=taken.default_value
                if taken.has_default_value()
                else inspect.Parameter.empty,
            )
            for taken in frozen.forward.schema.arguments[1:]
        ]
        vars(forward)["__signature__"] = inspect.Signature(parameters)
        self.forward = forward


def _found(path: str) -> str:
    return f"found a ScriptModule{f' at {path!r}' if path else ''}"
