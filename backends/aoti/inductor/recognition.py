"""Recognises in a torch that is not known what lowering changes and uses of the newest tested one.

What that is is read from the text of this folder. `recorded_places.json` has digests of it.
"""

import ast
import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pteron.backends.aoti.inductor.patches import REPAIRS

_FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Patch:
    """A function or file that changes or reads private code of torch.

    Attributes:
        name: of the function, or of the file for its `PLACES`.
        purpose: first sentences of the docstring.
        places: qualified names.
        wrapped: those of them that are called as before, so that only how they are called counts;
            of the others everything counts.
        releases: that need it; empty: all.
    """

    name: str
    purpose: str
    places: tuple[str, ...]
    wrapped: frozenset[str] = frozenset()
    releases: tuple[str, ...] = ()


def table() -> list[Patch]:
    """All patches."""
    return [patch for _, tree in _files() for patch in _patches_in(tree)]


def compare(recorded_release: str) -> tuple[list[str], list[str]]:
    """What differs from the release that `recorded_places.json` describes: a line for each place
    with which lowering cannot work, and functions that are wrapped and changed inside."""
    recorded = json.loads((_FOLDER / "recorded_places.json").read_text())
    problems: dict[str, str] = {}
    changed_inside = set()
    for patch in table():
        if patch.releases and recorded_release not in patch.releases:
            continue
        for place in recorded.keys() & set(patch.places):
            expected, found = recorded[place].split("/"), describe(place)
            if found == expected:
                continue
            if not found:
                problem = "is gone"
            elif found[0] != expected[0]:
                problem = f"is called in another way: {_signature(_function(_find(place)))}"
            elif place in patch.wrapped:
                changed_inside.add(place)
                continue
            else:
                problem = "changed inside"
            problems[place] = f"{problem} (for {patch.name})"
    for name, files in used_names().items():
        if name not in problems and not exists(name):
            problems[name] = f"is gone (for {', '.join(files)})"
    lines = [f"{place} {problem}" for place, problem in sorted(problems.items())]
    return lines, sorted(changed_inside - problems.keys())


def record() -> str:
    """The text of `recorded_places.json` for the installed torch."""
    places = sorted({place for patch in table() for place in patch.places})
    found = {place: "/".join(what) for place in places if (what := describe(place))}
    return json.dumps(found, indent=1) + "\n"


def used_names() -> dict[str, list[str]]:
    """Private names of torch that this folder imports, and theirs that it reads, with the files."""
    found: dict[str, list[str]] = {}
    for file, tree in _files():
        imported = _imported(tree)
        names = {name for name in imported.values() if _is_private(name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner = imported.get(node.value.id, "")
                if _is_private(owner) and not owner.endswith((".V", ".ops")):
                    names.add(f"{owner}.{node.attr}")
        for name in sorted(names):
            found.setdefault(name, []).append(file)
    return found


def describe(name: str) -> list[str]:
    """Digests of how a place is called and of what is in it; empty if it is gone."""
    if not exists(name):
        return []
    value = _find(name)
    kind, value = type(value).__name__, _function(value)
    body = value if isinstance(value, str) else ""
    if inspect.isfunction(value):
        with contextlib.suppress(OSError, TypeError):
            lines = (line.strip() for line in inspect.getsource(value).splitlines())
            body = "\n".join(line for line in lines if line and not line.startswith("#"))
    elif not callable(value):
        kind = ""  # its name is all that counts
    return [hashlib.sha256(x.encode()).hexdigest()[:8] for x in (kind + _signature(value), body)]


def exists(name: str) -> bool:
    try:
        _find(name)
    except (AttributeError, ImportError):
        return False
    return True


def _find(name: str) -> Any:
    """The module, or the attribute as it is stored; AttributeError or ImportError."""
    import torch._inductor.compile_fx  # noqa: F401  first: Inductor's modules import each other

    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    owner, _, attribute = name.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        return inspect.getattr_static(importlib.import_module(owner), attribute)
    outer, _, kind = owner.rpartition(".")
    return inspect.getattr_static(getattr(importlib.import_module(outer), kind), attribute)


def _function(value: Any) -> Any:
    """Of a method, a decorated or a cached function; anything else as it is."""
    return inspect.unwrap(getattr(value, "__func__", value))


def _signature(value: Any) -> str:
    """Parameters by name, and what is returned."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError, NameError):
        return ""
    returned = signature.return_annotation  # as written; other forms depend on Python's release
    returned = f" -> {returned}" if isinstance(returned, str) else ""
    return f"({', '.join(signature.parameters)}){returned}"


def _files() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(_FOLDER.glob("*.py")):
        yield file.name, ast.parse(file.read_text())


def _imported(tree: ast.AST) -> dict[str, str]:
    """What imports from torch, wherever they stand, call what."""
    names = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            names |= {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
    return names


def _is_private(name: str) -> bool:
    return name.startswith(("torch.", "torchgen.")) and "._" in name.replace("torchgen.", "._")


def _patches_in(tree: ast.Module) -> Iterator[Patch]:
    imported = _imported(tree)
    for part in tree.body:
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "PLACES":
            groups = [group.split(": ") for group in ast.literal_eval(part.value).split("; ")]
            places = tuple(f"{owner}.{x}" for owner, names in groups for x in names.split())
            yield Patch("PLACES", _purpose(tree), places)
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            found = dict(_places_in(part, imported))
            _, releases = REPAIRS.get(part.name, (None, ()))
            wrapped = frozenset(place for place, is_wrapped in found.items() if is_wrapped)
            if found or part.name in REPAIRS:
                yield Patch(part.name, _purpose(part), tuple(found), wrapped, releases)


def _places_in(part: ast.AST, imported: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """What calls of `patched` and `wrapped` change, and whether it is the latter."""
    for node in ast.walk(part):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and called in ("patched", "wrapped"):
            owner, name = ast.unparse(node.args[0]), getattr(node.args[1], "value", "")
            head, dot, rest = owner.partition(".")
            place = f"{imported.get(head, '')}{dot}{rest}.{name}"
            if isinstance(name, str) and name and _is_private(place):
                yield place, called == "wrapped"


def _purpose(part: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    return " ".join((ast.get_docstring(part) or "").partition("\n\n")[0].split())
