"""The backend for nodes that no partitioner took.

It runs in `to_executorch()`. Its package in `pteron.backends` has a module `leftovers`, which is
imported when nodes are left, and calls

    register_leftover_partitioner(lambda lowered: MyPartitioner())
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pteron.exir.backend.partitioner import Partitioner
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule

MakePartitioner: TypeAlias = Callable[[Sequence[LoweredBackendModule]], Partitioner]
"""Creates a partitioner from the delegates of the program, those of the same method first."""

_BACKENDS = "pteron.backends"

_make: MakePartitioner | None = None


def register_leftover_partitioner(make: MakePartitioner) -> None:
    """Registers `make`, which replaces an earlier registration."""
    global _make
    _make = make


def leftover_partitioner(lowered: Sequence[LoweredBackendModule]) -> Partitioner | None:
    """A partitioner for the rest of a method; None if no installed backend registers one."""
    if _make is None:
        _import_registrations()
    return None if _make is None else _make(lowered)


def _import_registrations() -> None:
    try:
        folders = importlib.import_module(_BACKENDS).__path__
    except ModuleNotFoundError:
        return
    for info in pkgutil.iter_modules(folders, f"{_BACKENDS}."):
        name = f"{info.name}.leftovers"
        if info.ispkg and importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
