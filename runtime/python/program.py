"""An open program file."""

from __future__ import annotations

import pteron.runtime.python._native as _native
from pteron.runtime.python import backend_registry
from pteron.runtime.python.errors import NotFoundError
from pteron.runtime.python.method import Method
from pteron.runtime.python.session import Session

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pteron.runtime.python.limits import Limits
    from pteron.runtime.python.method_meta import MethodMeta


class Program:
    """A program and its methods. Share one between all threads."""

    __slots__ = ("_names", "_native")

    def __init__(self, native: Any) -> None:
        self._native = native
        self._names: frozenset[str] | None = None

    @property
    def method_names(self) -> set[str]:
        if self._names is None:
            self._names = frozenset(self._native.method_names())
        return set(self._names)

    def metadata(self, method_name: str) -> MethodMeta:
        """Metadata of a method; loads nothing and needs no backend."""
        from pteron.runtime.python.method_meta import MethodMeta

        return MethodMeta(self._native.method_meta(method_name))

    def describe(self) -> str:
        """A human-readable description: methods, memory, delegates, data. Loads no method."""
        for name in self._native.method_names():
            try:
                backend_registry.require(self._native.method_meta(name)["backends"])
            except NotFoundError:
                pass  # which the text says
        return self._native.describe()

    def session(self) -> Session:
        """A set of mutable buffers, for the methods that are loaded into it."""
        return Session(self._native.new_session())

    def load_method(
        self,
        name: str,
        *,
        session: Session | None = None,
        backend_options: Mapping[str, Mapping[str, bool | int | str]] | None = None,
        devices: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Method:
        """Loads a method: allocates its memory and prepares its delegates.

        Args:
          name: one of `method_names`.
          session: the session of its mutable buffers; by default a new one.
          backend_options: backend options by id, as `{"CpuBackend": {"num_threads": 2}}`; unknown
            ones raise.
          devices: maps the program's devices to others, as `{"cuda:0": "cuda:1"}`, for inputs,
            outputs, state and memory.
          limits: its resource limits; by default those of the program.
        """
        backend_registry.require(self._native.method_meta(name)["backends"])
        options = {key: dict(value) for key, value in (backend_options or {}).items()}
        session = self.session() if session is None else session
        return Method(
            _native.load_method(
                self._native,
                name,
                session._native,
                options,
                dict(devices or {}),
                None if limits is None else limits._numbers(),
            ),
            session,
        )

    def __reduce__(self) -> str:
        raise TypeError(
            "a Program holds memory and code of this process and cannot be pickled; pickle the path"
            " and the options of load_program(), and load it there"
        )

    def __repr__(self) -> str:
        return f"Program({sorted(self.method_names)})"
