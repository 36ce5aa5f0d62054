"""Modules of `pteron` that import each other in a cycle, wherever the imports stand.

Imports in functions and under TYPE_CHECKING count: they delay a cycle and do not remove it. What a
package fetches on first use of a name (`import_module`) does not.
"""

import ast
import graphlib
from collections.abc import Collection, Iterator, Mapping

_FOLDERS = ("backends/", "exir/", "runtime/")


def import_cycle(sources: Mapping[str, str]) -> str:
    """One cycle, as a line for a person; empty if there is none.

    Args:
        sources: texts of files by their path from the repository's root, as `exir/program.py`.
    """
    texts = {
        _module(path): text
        for path, text in sources.items()
        if path.endswith(".py") and path.startswith(_FOLDERS)
    }
    graph = {name: set(_imported(text, texts.keys())) - {name} for name, text in texts.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " is imported by ".join(error.args[1])
    return ""


def _module(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__")
    return f"pteron.{name.replace('/', '.')}"


def _imported(text: str, modules: Collection[str]) -> Iterator[str]:
    """The modules that a module imports; `from a import b` is of `a.b`, if that is a module."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            both = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
            names = [name if name in modules else package for name, package in both]
        yield from (name for name in names if name in modules)
