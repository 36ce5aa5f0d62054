"""What the runtime raises: one exception a family of error codes, with the text of C++."""


class PteronError(RuntimeError):
    """Anything that goes wrong in the runtime.

    Attributes:
      code: the name of the error code, such as `"InvalidProgram"`; as in the C++ API.
    """

    code: str = "Internal"


class InvalidStateError(PteronError):
    """The object cannot do this now, or was given something it has already."""


class NotSupportedError(PteronError):
    """The file or the caller asks for what this runtime does not do."""


class InvalidArgumentError(PteronError, ValueError):
    """An argument is of the wrong kind, dtype, rank or size."""


class NotFoundError(PteronError, LookupError):
    """No such file, method, backend, blob or buffer."""


class AccessError(PteronError, OSError):
    """A file cannot be read or written."""


class ResourceError(PteronError, MemoryError):
    """Memory or another resource is used up."""


class InvalidProgramError(PteronError):
    """A program or data file is damaged or is not such a file."""


class CancelledError(PteronError):
    """`Method.cancel()` ended the run."""


class TimedOutError(PteronError, TimeoutError):
    """A run took longer than its limit or its timeout."""


class BackendError(PteronError):
    """A delegate refuses its part of the program or fails in it."""


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
    """The exception of the family that the error code `code`, called `name`, belongs to."""
    error = _FAMILIES.get(code, PteronError)(message)
    error.code = name
    return error
