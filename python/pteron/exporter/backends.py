"""Backends by name, with options as strings or values."""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pteron.exir.backend.partitioner import Partitioner
from pteron.exporter.errors import ExportError, unknown

Backends: TypeAlias = str | Partitioner | Sequence[str | Partitioner]

_BACKENDS = {"cpu": "Cpu", "cuda": "Cuda", "metal": "Metal"}
_HINTS = {
    "cuda": ", or use //tools/pteron:pteron_cuda",
    "metal": ", or use //tools/pteron:pteron_metal; wheels do not have it",
}


# Common other names.
_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda", "mps": "metal", "xnnpack": "cpu", "inductor": "cpu"}


def partitioners_of(backend: Backends, options: Mapping[str, Any]) -> list[Partitioner]:
    """Partitioners in order. Option values may be strings, as on a command line."""
    chosen: list[Any] = list(backend) if isinstance(backend, list | tuple) else [backend]
    names = [name for name in chosen if isinstance(name, str)]
    problems = [
        _no_backend(item)
        for item in chosen
        if not isinstance(item, Partitioner) and item not in tuple(_BACKENDS)
    ]
    if not isinstance(options, Mapping):
        raise ExportError(
            f"options: found a {type(options).__name__}; expected a dict, as"
            f" {{'cpu.weights': 'shared'}}.\ntry:  backend=CpuPartitioner(CpuOptions(...)) for an"
            f" object with options"
        )
    values: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in options.items():
        name, _, option = key.partition(".")
        if name in values and option:
            values[name][option] = value
        else:
            example = f"{names[0]}.{key}" if names and not option else "cpu.weights"
            problems.append(
                f"option {key!r} is not of a chosen backend ({', '.join(names) or 'none by name'});"
                f" expected BACKEND.OPTION, as {example}"
            )
    partitioners = []
    for item in chosen:
        if isinstance(item, Partitioner):
            partitioners.append(item)
        elif isinstance(item, str) and item in _BACKENDS:
            try:
                partitioners.append(_partitioner(item, values[item]))
            except ValueError as error:
                problems.append(str(error))
    if problems:
        raise ExportError("\n".join(problems))
    return partitioners


def _no_backend(item: Any) -> str:
    if not isinstance(item, str):
        found = f"the class {item.__name__}" if isinstance(item, type) else f"{item!r}"
        hint = f"\ntry:  {item.__name__}()" if isinstance(item, type) else ""
        return (
            f"backend: found {found}; expected {', '.join(map(repr, _BACKENDS))}, a partitioner, or"
            f" a list of these{hint}"
        )
    name = item.lower().partition(":")[0]
    meant = _SYNONYMS.get(name, name)
    if "," in item:
        return f"there is no backend {item!r}; expected a list, {item.split(',')}"
    known = ", ".join(_BACKENDS)
    if meant in _BACKENDS:
        return f"there is no backend {item!r}; did you mean {meant!r}? Known: {known}"
    return unknown("backend", item, _BACKENDS)


def _partitioner(backend: str, values: Mapping[str, Any]) -> Partitioner:
    import pteron

    try:
        options = getattr(pteron, f"{_BACKENDS[backend]}Options")
    except ImportError as error:
        raise ExportError(f"backend {backend!r}: {error}{_HINTS.get(backend, '')}") from error
    types = typing.get_type_hints(options)
    known = {field.name: types[field.name] for field in dataclasses.fields(options)}
    problems, parsed = [], {}
    for name, value in values.items():
        if name not in known:
            problems.append(unknown(f"option of {backend}", name, known))
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
    """Parses a string as the option's type; returns other values unchanged."""
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
            raise ValueError(f"found {value!r}, expected an integer") from None
    if typing.get_origin(wanted) is tuple:
        return tuple(value.split(","))
    return value
