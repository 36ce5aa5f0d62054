"""The backends of this process, and discovery of further ones."""

from __future__ import annotations

import contextlib
import os

import pteron.runtime.python._native as _native
from pteron.runtime.python.errors import NotFoundError, PteronError

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Folders of the package `pteron.backends` with backends one level deeper.
_GROUPS = ("apple", "example")
# Where a wheel has the libraries of all backends, beside libpteron.so.
_WHEEL_LIBRARIES = os.path.join(os.path.dirname(__file__), "..", "..", "lib")


class BackendRegistry:
    """The backends that programs can be delegated to.

    For a backend that is not registered, the runtime searches the package `pteron.backends` for a
    module `native` with this `BACKEND_ID` and opens its `LIBRARY` (path relative to its folder). No
    lowering code is imported.
    """

    @property
    def registered_backend_names(self) -> list[str]:
        """Ids of the backends registered so far, sorted."""
        return _native.registered_backends()

    def is_available(self, backend_name: str) -> bool:
        """Whether this machine can run the backend."""
        return not self.obstacle(backend_name)

    def obstacle(self, backend_name: str) -> str:
        """Why this machine cannot run the backend; empty if it can."""
        try:
            require([backend_name])
        except NotFoundError:
            return "it is not among what this program depends on"
        available, reason = _native.is_backend_available(backend_name)
        return "" if available else reason or "the backend does not say why"

    def open_library(self, path: str | os.PathLike[str]) -> list[str]:
        """Opens a shared library that registers backends; returns the names that it added."""
        before = set(_native.registered_backends())
        _native.open_library(os.fsencode(path))
        return sorted(set(_native.registered_backends()) - before)


def load_operators(path: str | os.PathLike[str]) -> None:
    """Opens a shared library with C functions of operators, for programs that are loaded after it.

    The functions are those of `backends/aoti/shims/operators.h`. The library stays open. Programs
    cannot name a library.

    Args:
      path: with a folder, or a name that the dynamic linker searches for.

    Raises:
      AccessError: the library cannot be opened; the message says why.
    """
    # Backends' libraries have the functions that those of an operator call.
    for _, library in _declared_libraries():
        with contextlib.suppress(PteronError):
            _native.open_library(os.fsencode(library))
    _native.open_library(os.fsencode(path), operators=True)


def require(backend_names: Iterable[str]) -> None:
    """Registers the backends if needed; raises NotFoundError listing missing ones."""
    missing = set(backend_names) - set(_native.registered_backends())
    if not missing:
        return
    # Thread-safe: a library is opened once.
    declared = dict(_declared_libraries())
    for name in sorted(missing & declared.keys()):
        _native.open_library(os.fsencode(declared[name]))
    missing -= set(_native.registered_backends())
    if missing:
        known = sorted({*_native.registered_backends(), *declared})
        raise NotFoundError(
            f"no backend {', '.join(sorted(missing))}; known here: {', '.join(known) or 'none'}. "
            "Add the package of the backend to the program's dependencies, or open its library "
            "with Runtime.get().backend_registry.open_library(path)"
        )


def _declared_libraries() -> Iterator[tuple[str, str]]:
    """(backend id, path of its library) of each `native` module under `pteron.backends`."""
    import importlib
    import pkgutil

    try:
        backends = importlib.import_module("pteron.backends")
    except ModuleNotFoundError:
        return
    paths = {backends.__name__: list(backends.__path__)}
    for group in _GROUPS:
        folders = [os.path.join(path, group) for path in backends.__path__]
        paths[f"{backends.__name__}.{group}"] = folders
    for package, folders in paths.items():
        for info in pkgutil.iter_modules(folders):
            folder = os.path.join(getattr(info.module_finder, "path", ""), info.name)
            if not info.ispkg or not os.path.exists(os.path.join(folder, "native.py")):
                continue
            native = importlib.import_module(f"{package}.{info.name}.native")
            library = os.path.join(folder, native.LIBRARY)
            packaged = os.path.join(_WHEEL_LIBRARIES, os.path.basename(library))
            yield native.BACKEND_ID, packaged if os.path.exists(packaged) else library
