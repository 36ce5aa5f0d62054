"""The state that a model keeps between calls."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any


class Session:
    """Mutable buffers (a KV cache) by name, shared by the methods that are loaded into it.

        session = program.session()
        prefill = program.load_method("prefill", session=session)
        decode = program.load_method("decode", session=session)  # sees what prefill wrote

    Two sessions share nothing but the program. From several threads, the methods of one session
    take turns; those of different sessions run at the same time.
    """

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def reset(self) -> None:
        """Puts every buffer back to its initial value."""
        self._native.reset()

    def buffer_names(self) -> list[str]:
        """Of the buffers that the methods loaded so far use, sorted."""
        return self._native.buffer_names()

    def buffer(self, name: str) -> Any:
        """A copy of one: a torch tensor if torch is loaded, else a numpy array."""
        return self._native.buffer(name)
