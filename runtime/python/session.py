"""The state of a model between calls."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Session:
    """Mutable buffers (a KV cache) by name, shared by the methods that are loaded into it.

        session = program.session()
        prefill = program.load_method("prefill", session=session)
        decode = program.load_method("decode", session=session)  # sees what prefill wrote

    `session.state` has the buffers as a mapping; `copy()` goes on from here twice.

    Two sessions share nothing but the program. From several threads, the methods of one session
    take turns; those of different sessions run at the same time.
    """

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def reset(self) -> None:
        """Resets every buffer to its initial value."""
        self._native.reset()

    def buffer_names(self) -> list[str]:
        """Names of the buffers of all methods loaded so far, sorted."""
        return self._native.buffer_names()

    def buffer(self, name: str) -> Any:
        """A copy of a buffer: a torch tensor if torch is loaded, else a NumPy array."""
        return self._native.buffer(name)

    def set_buffer(self, name: str, value: Any) -> None:
        """Copies a tensor of the buffer's dtype and sizes into it, on the device where it is."""
        if hasattr(value, "resolve_neg"):
            value = value.detach().resolve_neg().contiguous()
        elif hasattr(value, "__array__"):
            import numpy as np

            value = np.ascontiguousarray(value).reshape(value.shape)
        self._native.set_buffer(name, value)

    @property
    def state(self) -> State:
        """The buffers by name: `session.state["cache"]` is a copy, assigning writes."""
        return State(self)

    def copy(self) -> Session:
        """Another session with the same values; load its methods again, into it."""
        return Session(self._native.copy())


class State:
    """The mutable buffers of a session, as a mapping that can be assigned to."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def keys(self) -> list[str]:
        return self._session.buffer_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Any:
        return self._session.buffer(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._session.set_buffer(name, value)

    def __repr__(self) -> str:
        return f"State({', '.join(self)})"
