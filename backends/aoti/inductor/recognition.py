"""Recognises in an unknown torch what lowering changes and uses of the newest tested release."""

import ast
import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pteron.backends.aoti.inductor.patches import TABLE
from pteron.backends.aoti.inductor.recorded_places import RECORDED


@dataclasses.dataclass(frozen=True)
class Differences:
    """From the newest tested release.

    Attributes:
        problems: a line for each place with which lowering cannot work.
        other_bodies: functions that are called as before but changed inside.
    """

    problems: tuple[str, ...]
    other_bodies: tuple[str, ...]


def compare() -> Differences:
    """What differs from the release that `recorded_places` describes."""
    recorded = dict(line.split(" ", 1) for line in RECORDED.split("\n") if line)
    problems: dict[str, str] = {}
    other_bodies = []
    for place, users in _places().items():
        if place not in recorded:
            continue  # of an older release
        expected, found = recorded[place].split(), describe(place).split()
        if found[0] == "missing":
            problems[place] = "is gone"
        elif found[0] != expected[0]:
            problems[place] = f"takes or returns something else: {_signature(_find(place))}"
        elif found[1] != expected[1]:
            if any(place not in TABLE[user].wraps for user in users):
                problems[place] = "has another body"
            else:
                other_bodies.append(place)
        if place in problems:
            problems[place] += f" (for {', '.join(users)})"
    for name, files in used_names().items():
        if name not in problems and not _exists(name):
            problems[name] = f"is gone (for {', '.join(sorted(files))})"
    lines = (f"{place} {problem}" for place, problem in sorted(problems.items()))
    return Differences(tuple(lines), tuple(sorted(other_bodies)))


def record() -> str:
    """The lines of `recorded_places` for the installed torch."""
    lines = ((place, describe(place)) for place in sorted(_places()))
    return "".join(f"{place} {what}\n" for place, what in lines if what != "missing")


def _places() -> dict[str, list[str]]:
    """Places by name, with the entries of the table that have them."""
    import torch._inductor.compile_fx  # noqa: F401  first: Inductor's modules import each other

    with contextlib.suppress(ImportError, AttributeError):  # `used_names` tells what it lacks
        from pteron.backends.aoti.inductor import packed_gemms  # noqa: F401  its entries
    places: dict[str, list[str]] = {}
    for entry in TABLE.values():
        for place in (*entry.wraps, *entry.replaces, *entry.reads):
            places.setdefault(place, []).append(entry.name)
    return places


def describe(name: str) -> str:
    """Digests of how a place is used and of what is in it, or "missing"."""
    if not _exists(name):
        return "missing"
    value = _find(name)
    kind = type(value).__name__
    value = inspect.unwrap(getattr(value, "__func__", value))
    body = value if isinstance(value, str) else "-"
    if inspect.isclass(value) or inspect.isfunction(value):
        with contextlib.suppress(OSError, TypeError):
            lines = (line.strip() for line in inspect.getsource(value).splitlines())
            body = "\n".join(line for line in lines if line and not line.startswith("#"))
    return f"{_digest(kind + _signature(value))} {_digest(body)}"


def _signature(value: Any) -> str:
    """Parameters by name, and what is returned."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError, NameError):
        return ""
    returned = signature.return_annotation  # as written; other forms depend on Python's release
    returned = f" -> {returned}" if isinstance(returned, str) else ""
    return f"({', '.join(signature.parameters)}){returned}"


def _exists(name: str) -> bool:
    try:
        _find(name)
    except (AttributeError, ImportError):
        return False
    return True


def _find(name: str) -> Any:
    """The attribute as it is stored; AttributeError or ImportError."""
    owner, _, attribute = name.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    with contextlib.suppress(ModuleNotFoundError):
        return inspect.getattr_static(importlib.import_module(owner), attribute)
    outer, _, kind = owner.rpartition(".")
    return inspect.getattr_static(getattr(importlib.import_module(outer), kind), attribute)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def used_names() -> dict[str, set[str]]:
    """Private names of torch that this folder imports, and theirs that it reads, with the files."""
    found: dict[str, set[str]] = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        for name in _names_in(ast.parse(file.read_text())):
            found.setdefault(name, set()).add(file.name)
    return found


def _names_in(tree: ast.Module) -> Iterator[str]:
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and re.match(r"torch.*\._|torchgen", node.module or ""):
            imported |= {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
    yield from imported.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = imported.get(node.value.id, "torch._inductor.virtualized.V")
            if owner != "torch._inductor.virtualized.V" and not node.attr.startswith("__"):
                yield f"{owner}.{node.attr}"
