"""Example inputs of a method, as the caller gave them."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pteron.exporter.errors import ExportError, unknown


def inputs_of(
    name: str, forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs by position and by name."""
    takes = f"{forward.__name__}{inspect.signature(forward)}"
    if isinstance(args, torch.Size) or _is_size(args):
        raise ExportError(
            f"method {name!r}: found sizes, {args}; expected example inputs, tensors of such"
            f" sizes.\ntry:  (torch.randn(2, 8),)"
        )
    if isinstance(args, torch.Tensor):
        args = (args,)
    if isinstance(args, Mapping):
        args, kwargs = (), {**args, **kwargs}
    if args is None and kwargs:
        args = ()
    if not isinstance(args, tuple):
        found = (
            "no example inputs" if args is None else f"example inputs in a {type(args).__name__}"
        )
        raise ExportError(
            f"method {name!r}: found {found}; expected a tuple of what {takes} is called with.\n"
            f"try:  (x,) for one input, with the comma; {{'name': x}} for inputs by name"
        )
    try:
        inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as error:
        raise ExportError(
            f"method {name!r}: found {len(args) + len(kwargs)} example inputs; expected those of"
            f" {takes} ({error}){_instead(forward, args, kwargs)}"
        ) from error
    numbered = ((str(index), value) for index, value in enumerate(args))
    check_tensors(name, "example input", [*numbered, *kwargs.items()])
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
    return _by_position(forward, args, dict(kwargs))


def _by_position(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same inputs, with those by position that were named in the order of the parameters.

    What was exported by position can be given by name to the program, but not the other way round.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = inspect.signature(forward).parameters.values()
    rest = [parameter.name for parameter in parameters if parameter.kind is kind][len(args) :]
    for name in rest:
        if not kwargs or name != next(iter(kwargs)):
            break
        args = (*args, kwargs.pop(name))
    return args, kwargs


def _instead(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """A remedy for arguments that `forward` does not take."""
    parameters = inspect.signature(forward).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    wrong = [key for key in kwargs if key not in names]
    if kwargs and not args and len(names) == 1 and wrong:
        return "\ntry:  (inputs,), with the comma, if the one argument is a dict"
    if wrong and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return f"; {unknown('argument', wrong[0], names)}"
    given = [*kwargs, *names[: len(args)]]
    missing = [p.name for p in parameters if p.default is p.empty and p.name in names]
    missing = [name for name in missing if name not in given]
    example = ", ".join(f"{name!r}: ..." for name in [*names[: len(args)], *kwargs, *missing])
    return f"\ntry:  {{{example}}}, by name" if missing else ""


def check_tensors(name: str, what: str, values: Iterable[tuple[str, Any]]) -> None:
    """ExportError lists tensors that no program has, or not in this place."""
    problems = [
        f"method {name!r}: {what} {key!r} {problem}"
        for key, value in values
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor) and (problem := _oddity(leaf, what))
    ]
    if problems:
        raise ExportError("\n".join(problems))


def _oddity(tensor: torch.Tensor, what: str) -> str:
    if torch.nn.parameter.is_lazy(tensor):
        return "has no size and no values yet.\ntry:  a call of the model, model(*inputs)"
    if tensor.is_nested:
        return "is a nested tensor; expected a dense one.\ntry:  a padded tensor and a mask"
    if tensor.layout is not torch.strided:
        return f"is {tensor.layout}; expected a dense tensor.\ntry:  its to_dense()"
    if tensor.is_quantized:
        return "is quantized; expected a float model, or one of torchao's quantize_()"
    if tensor.is_meta:
        return (
            "is on the device 'meta', where it has no values.\ntry:  torch.randn(2, 8), or others"
        )
    return ""


def check_dimensions(
    name: str, forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], shapes: Any
) -> None:
    """ExportError if dynamic shapes name dimensions that the example inputs do not have."""
    bound = inspect.signature(forward).bind(*args, **kwargs).arguments
    if isinstance(shapes, tuple | list):
        shapes = dict(zip(bound, shapes, strict=False))
    if not isinstance(shapes, Mapping):
        return
    for key, value in bound.items():
        spec = shapes.get(key)
        if isinstance(value, torch.Tensor) and isinstance(spec, Mapping):
            wrong = [dim for dim in spec if isinstance(dim, int) and not 0 <= dim < value.dim()]
            if wrong:
                raise ExportError(
                    f"method {name!r}: dynamic_shapes has dimension {wrong[0]} of {key!r}, which"
                    f" is {list(value.shape)}; expected 0 to {value.dim() - 1}"
                )


def register_dataclasses(value: Any) -> Any:
    """Registers the types of dataclasses, for the process, so that torch.export takes them apart;
    returns the value."""
    for leaf in pytree.tree_leaves(value):
        kind = type(leaf)
        if dataclasses.is_dataclass(kind) and kind not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(kind)
            register_dataclasses(leaf)
    return value


def with_named_keywords(
    forward: Callable[..., Any], kwargs: Mapping[str, Any]
) -> Callable[..., Any]:
    """A method with the parameters that are given instead of **kwargs, of which torch.export takes
    no dynamic shapes; it registers dataclasses that are returned."""

    @functools.wraps(forward)
    def entered(*args: Any, **kwargs: Any) -> Any:
        return register_dataclasses(forward(*args, **kwargs))

    signature = inspect.signature(forward)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(parameters) < len(signature.parameters):
        known = signature.parameters
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in kwargs
            if name not in known
        ]
        vars(entered)["__signature__"] = signature.replace(parameters=parameters)
    return entered


def shapes_for(
    name: str, forward: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], shapes: Any
) -> Any:
    """Dynamic shapes as torch.export takes them: dicts with all keys, an entry for all of *args,
    and lists for dataclasses. ExportError if they name what the inputs do not have."""
    signature = inspect.signature(forward)
    bound = signature.bind(*args, **kwargs).arguments
    if isinstance(shapes, tuple | list):
        kinds = [signature.parameters[key].kind for key in bound]
        first = next((i for i, k in enumerate(kinds) if k is inspect.Parameter.VAR_POSITIONAL), -1)
        count = len(bound) - 1 + len(args[first:])  # with an entry for each of *args
        if (
            first >= 0
            and len(shapes) == count
            and (count != len(bound) or not isinstance(shapes[first], tuple | list | None))
        ):
            end = len(args)
            shapes = (*shapes[:first], tuple(shapes[first:end]), *shapes[end:])
        if len(shapes) != len(bound):
            return shapes  # of which torch.export says what it expects
        shapes = dict(zip(bound, shapes, strict=True))
    if not isinstance(shapes, Mapping) or not all(isinstance(key, str) for key in shapes):
        return shapes
    return _spec(f"method {name!r}: dynamic_shapes", bound, shapes)


def _spec(where: str, value: Any, spec: Any) -> Any:
    """The dynamic shapes of a value."""
    kind = type(value)
    if spec is None:  # a container, too, has an entry for each item
        spec = {}
        if isinstance(value, list | tuple):
            spec = getattr(value, "_make", kind)([None] * len(value))
    if isinstance(value, list | tuple) and isinstance(spec, list | tuple):
        if len(value) != len(spec):
            return spec
        specs = [_spec(where, *each) for each in zip(value, spec, strict=True)]
        return getattr(spec, "_make", type(spec))(specs)
    is_class = kind in pytree.SUPPORTED_NODES and kind not in pytree.BUILTIN_TYPES
    if not isinstance(spec, Mapping) or not (is_class or isinstance(value, Mapping)):
        return spec or None
    items: Any = value
    if is_class:
        flatten: Any = pytree.SUPPORTED_NODES[kind].flatten_with_keys_fn
        items = {getattr(k, "name", None) or k.key: each for k, each in flatten(value)[0]}
    wrong = [key for key in spec if key not in items and spec[key] is not None]
    if wrong:
        raise ExportError(f"{where}: {unknown('input', str(wrong[0]), map(str, items))}")
    named = {key: _spec(where, each, spec.get(key)) for key, each in items.items()}
    return [*named.values()] if is_class else named


def distinct(inputs: Any) -> Any:
    """The same inputs, with a copy where a tensor comes again, which torch.export takes for the
    input that it was before."""
    seen: set[int] = set()

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.clone()
        seen.add(id(tensor))
        return tensor

    return pytree.tree_map_only(torch.Tensor, own, inputs)


def _is_size(args: Any) -> bool:
    """Whether these are tuples of ints instead of tensors."""
    return (
        isinstance(args, tuple)
        and bool(args)
        and all(isinstance(a, tuple) and a and all(type(n) is int for n in a) for a in args)
    )
