"""Parses dynamic shapes: `[METHOD/]INPUT.DIM=[NAME:]MIN..MAX`.

`image.0=1..8` makes dimension 0 of input `image` dynamic, 1 to 8. Dimensions with one name are
equal; give the range once or each time: `x.0=batch:1..64`, `mask.0=batch`.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim

from pteron.command.usage import UsageError, nearest

_FORM = re.compile(
    r"(?:(?P<method>\w+)/)?(?P<input>\w+)\.(?P<dim>\d+)=(?:(?P<name>[A-Za-z_]\w*):?)?"
    r"(?:(?P<min>\d+)\.\.(?P<max>\d+))?"
)


def dynamic_shapes(methods: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """dynamic_shapes of torch.export by method. UsageError lists all errors."""
    dims: dict[str, Any] = {}
    named: list[tuple[str, str, int, str]] = []
    problems: list[str] = []
    for text in texts:
        match = _FORM.fullmatch(text)
        if match is None or text.endswith(("=", ":")):
            problems.append(f"found {text!r}; expected INPUT.DIM=MIN..MAX, as image.0=1..8")
            continue
        if match["max"] and int(match["min"]) >= int(match["max"]):
            problems.append(f"found {text!r}; expected MIN below MAX, as 1..8")
            continue
        method, parameter, dim = match["method"], match["input"], int(match["dim"])
        name = match["name"] or f"{parameter}_{dim}"
        if match["max"]:
            dims[name] = Dim(name, min=int(match["min"]), max=int(match["max"]))
        owners = [method] if method else [m for m in methods if parameter in _inputs(methods[m])]
        if not owners or method not in (None, *methods):
            known = methods if method else sorted({p for m in methods.values() for p in _inputs(m)})
            what = ("method", method) if method else ("input", parameter)
            problems.append(f"{text!r}: {nearest(*what, known)}")
        named += [(owner, parameter, dim, name) for owner in owners if owner in methods]
    shapes: dict[str, Any] = {}
    for method, parameter, dim, name in named:
        inputs = _inputs(methods[method])
        value = inputs.get(parameter)
        if parameter not in inputs:
            problems.append(f"method {method!r}: {nearest('input', parameter, inputs)}")
        elif not isinstance(value, torch.Tensor) or dim >= value.dim():
            found = f"{value.dim()} dimensions" if isinstance(value, torch.Tensor) else "no tensor"
            problems.append(f"{parameter}.{dim}: input {parameter!r} of {method!r} has {found}")
        elif name not in dims:
            problems.append(f"{parameter}.{dim}: dimension {name!r} has no range, as 1..64")
        else:
            empty: dict[str, Any] = {key: None for key in inputs}
            of_input = shapes.setdefault(method, empty)
            of_input[parameter] = {**(of_input[parameter] or {}), dim: dims[name]}
    if problems:
        raise UsageError("--dynamic: " + "\n".join(problems))
    return shapes


def _inputs(method: Any) -> dict[str, Any]:
    """Example inputs of a method by parameter; empty if they are invalid."""
    if not isinstance(method, tuple) or len(method) < 2:
        return {}
    target, args = method[:2]
    forward = target.forward if isinstance(target, torch.nn.Module) else target
    if isinstance(args, Mapping):
        return dict(args)
    try:
        args = (args,) if isinstance(args, torch.Tensor) else args
        return inspect.signature(forward).bind(*args).arguments
    except TypeError:
        return {}
