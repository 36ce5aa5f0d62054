"""The backends of this process, and where more of them are found."""

from __future__ import annotations

import importlib
import os
import pathlib
import pkgutil
import threading
from collections.abc import Iterable, Iterator

from runtime.python import _native
from runtime.python.errors import NotFoundError

# Folders of the package `backends` that hold backends one level further down.
_GROUPS = ("apple", "example")

_lock = threading.Lock()


class BackendRegistry:
    """The backends that programs can be delegated to.

    A program that names a backend which is not registered makes the runtime look through the package
    ``backends`` for a module ``native`` that declares ``BACKEND_ID`` and ``LIBRARY`` (a path relative to
    its folder), and open that library. Nothing that lowers models is imported.
    """

    @property
    def registered_backend_names(self) -> list[str]:
        """Of the backends registered so far, sorted."""
        return _native.registered_backends()

    def is_available(self, backend_name: str) -> bool:
        """Whether this machine can run what is delegated to the backend."""
        try:
            require([backend_name])
        except NotFoundError:
            return False
        return _native.is_backend_available(backend_name)[0]

    def open_library(self, path: str | os.PathLike[str]) -> list[str]:
        """Opens a shared library that registers backends; returns the names that it added."""
        before = set(_native.registered_backends())
        _native.open_library(os.fspath(path))
        return sorted(set(_native.registered_backends()) - before)


def require(backend_names: Iterable[str]) -> None:
    """Sees to it that the backends are registered; raises NotFoundError that names those missing."""
    missing = set(backend_names) - set(_native.registered_backends())
    if not missing:
        return
    with _lock:
        declared = dict(_declared_libraries())
        for name in sorted(missing):
            if name in declared and name not in _native.registered_backends():
                _native.open_library(str(declared[name]))
    missing -= set(_native.registered_backends())
    if missing:
        known = sorted({*_native.registered_backends(), *declared})
        raise NotFoundError(
            f"no backend {', '.join(sorted(missing))}; known here: {', '.join(known) or 'none'}. Add "
            "the package of the backend to the program's dependencies, or open its library with "
            "Runtime.get().backend_registry.open_library(path)"
        )


def _declared_libraries() -> Iterator[tuple[str, pathlib.Path]]:
    """(backend id, library) of each ``native`` module under ``backends``."""
    try:
        backends = importlib.import_module("backends")
    except ModuleNotFoundError:
        return
    paths = {"backends": list(backends.__path__)}
    for group in _GROUPS:
        paths[f"backends.{group}"] = [os.path.join(path, group) for path in paths["backends"]]
    for package, folders in paths.items():
        for info in pkgutil.iter_modules(folders):
            folder = pathlib.Path(getattr(info.module_finder, "path", "")) / info.name
            if not info.ispkg or not (folder / "native.py").exists():
                continue
            native = importlib.import_module(f"{package}.{info.name}.native")
            yield native.BACKEND_ID, folder / native.LIBRARY
