"""The state of a model between calls."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any


class Session:
    """Mutable buffers (a KV cache) by name, shared by the methods that are loaded into it.

        session = program.session()
        prefill = program.load_method("prefill", session=session)
        decode = program.load_method("decode", session=session)  # sees what prefill wrote

    Two sessions share only the program. Calls into one session from several threads are serialized;
    those into different sessions run concurrently.
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
