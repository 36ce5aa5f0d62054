"""Exceptions of the runtime: one per family of error codes, with the C++ message."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from pteron.runtime.python.profile import Profile


class PteronError(RuntimeError):
    """Base class of the runtime's exceptions.

    Attributes:
      code: the name of the error code, such as `"InvalidProgram"`; as in the C++ API.
      profile: of a call by `Method.profile()`.
    """

    code: str = "Internal"
    profile: Profile | None = None


class InvalidStateError(PteronError):
    """The object's state does not allow the call."""


class NotSupportedError(PteronError):
    """The file or the caller requires an unsupported feature."""


class InvalidArgumentError(PteronError, ValueError):
    """An argument has the wrong kind, dtype, rank or size."""


class NotFoundError(PteronError, LookupError):
    """A file, method, backend, blob or buffer does not exist."""


class AccessError(PteronError, OSError):
    """A file cannot be read or written, or a `LoadPolicy` refuses it."""


class ResourceError(PteronError, MemoryError):
    """Memory or another resource is used up."""


class InvalidProgramError(PteronError):
    """A program or data file is corrupt, or is not such a file."""


class CancelledError(PteronError):
    """`Method.cancel()` ended the run."""


class TimedOutError(PteronError, TimeoutError):
    """A run exceeded its limit or timeout."""


class BackendError(PteronError):
    """A delegate rejects its part of the program or fails."""


_FAMILIES: dict[int, type[PteronError]] = {
    0x02: InvalidStateError,
    0x03: InvalidStateError,
    0x04: InvalidStateError,
    0x10: NotSupportedError,
    0x11: NotSupportedError,
    0x12: InvalidArgumentError,
    0x13: InvalidArgumentError,
    0x14: NotSupportedError,
    0x20: NotFoundError,
    0x21: ResourceError,
    0x22: AccessError,
    0x23: InvalidProgramError,
    0x24: InvalidProgramError,
    0x25: ResourceError,
    0x30: BackendError,
    0x31: BackendError,
    0x32: BackendError,
    0x40: CancelledError,
    0x41: TimedOutError,
}


def error_of_code(code: int, name: str, message: str) -> PteronError:
    """The exception of the family of error code `code` with name `name`."""
    error = _FAMILIES.get(code, PteronError)(message)
    error.code = name
    return error
