"""The entry point of the binding."""

from __future__ import annotations

import os

import pteron.runtime.python._native as _native
from pteron.runtime.python.backend_registry import BackendRegistry
from pteron.runtime.python.errors import PteronError
from pteron.runtime.python.program import Program
from pteron.runtime.python.verification import Verification

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, BinaryIO

    from pteron.runtime.python.limits import Limits
    from pteron.runtime.python.load_policy import LoadPolicy

    _Path = str | os.PathLike[str]
    _Bytes = bytes | bytearray | memoryview | BinaryIO


class OperatorRegistry:
    """The kernels that programs can call outside their delegates."""

    @property
    def operator_names(self) -> set[str]:
        return set(_native.registered_kernels())


class Runtime:
    """Loads programs. One per process: `Runtime.get()`."""

    _instance: Runtime | None = None

    def __init__(self) -> None:
        self.backend_registry = BackendRegistry()
        self.operator_registry = OperatorRegistry()

    @staticmethod
    def get() -> Runtime:
        if Runtime._instance is None:
            Runtime._instance = Runtime()
        return Runtime._instance

    def release_cached_memory(self) -> None:
        """Returns cached memory of the host and of devices.

        Otherwise as much is cached as recent calls of the loaded methods needed, until the method
        is destroyed. May be called while methods run. The next calls allocate again. Per-thread
        caches of other threads stay (up to 8 MB each).
        """
        _native.release_cached_memory()

    def load_program(
        self,
        data: _Path | _Bytes,
        *,
        verification: Verification = Verification.InternalConsistency,
        data_path: _Path | _Bytes | Sequence[_Path | _Bytes] | None = None,
        allowed_backends: Collection[str] | None = None,
        limits: Limits | None = None,
        policy: LoadPolicy | None = None,
        signature: _Path | _Bytes | None = None,
    ) -> Program:
        """Opens a program file.

        Args:
          data: its path, its bytes, or a binary file to read. A path is mapped, not read:
            truncating the file ends the process with SIGBUS, so pass bytes if others can write to
            it.
          verification: how much is verified.
          data_path: one or several tensor-data files (.ptd) with external data, in any form of
            `data`.
          allowed_backends: backend ids allowed in the program's delegates; by default all. Most
            backends run native code from the file, so pass `()` for untrusted files.
          limits: resource limits of the program and each of its methods; by default `Limits()`.
          policy: whose programs are taken; by default anybody's. What it refuses is an
            `AccessError`, before any code is opened. With a signature, `verification` is Required.
          signature: of the program, for `policy`, in any form of `data`; by default the file
            beside `data`, with `.intoto.json` at the end of its name.
        """
        if isinstance(allowed_backends, str):
            raise TypeError("allowed_backends: found a str, expected a collection of them")
        beside: Any = [] if data_path is None else data_path
        most = None if limits is None else limits.load_bytes
        allowed_files = None
        if policy is not None:
            allowed_files = _allowed_files(policy, data, signature)
            if allowed_backends is None:
                allowed_backends = policy.allowed_backends
            elif policy.allowed_backends is not None:
                allowed_backends = set(allowed_backends) & set(policy.allowed_backends)
        elif signature is not None:
            raise TypeError("signature: expected policy, too, which says who may sign")
        is_path, program = _read(data, most)
        files = [_read(file, most) for file in ([beside] if _is_one_file(beside) else beside)]
        return Program(
            _native.load(
                program,
                is_path,
                verification.value,
                [file for is_path, file in files if is_path],
                [file for is_path, file in files if not is_path],
                None if allowed_backends is None else list(allowed_backends),
                None if limits is None else limits._numbers(),
                allowed_files,
            )
        )


def _allowed_files(policy: LoadPolicy, data: Any, signature: Any) -> list[bytes] | None:
    """What the policy allows of a program, which is named in its error."""
    from pteron.runtime.python.load_policy import read_beside

    is_path = isinstance(data, (str, os.PathLike))
    if signature is None:
        text = read_beside(data) if is_path else None
    else:
        from_path, text = _read(signature, None)
        if from_path:
            with open(text, "rb") as file:
                text = file.read()
    try:
        return policy.allowed_files(text)
    except PteronError as error:
        name = os.fsdecode(data) if is_path else "the program in memory"
        error.args = (f"{name}: {error}",)
        raise


def _is_one_file(data: object) -> bool:
    kinds = (str, os.PathLike, bytes, bytearray, memoryview)
    return isinstance(data, kinds) or hasattr(data, "read")


def _read(data: Any, most: int | None) -> tuple[bool, bytes]:
    """Whether it is a path, and the path or the contents; at most `most` bytes are copied."""
    if isinstance(data, (str, os.PathLike)):
        return True, os.fsencode(data)
    if hasattr(data, "read"):
        data = data.read() if most is None else data.read(most + 1)
        if most is not None and len(data) > most:
            raise _more_than(most)
    elif most is not None and isinstance(data, (bytearray, memoryview)):
        if memoryview(data).nbytes > most:
            raise _more_than(most)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a file is a path, bytes or a binary file; found {type(data).__name__}")
    return False, bytes(data)


def _more_than(most: int) -> Exception:
    from pteron.runtime.python.errors import error_of_code

    return error_of_code(
        0x21,
        "MemoryAllocationFailed",
        f"a file to be copied has more bytes than the limit load_bytes, {most}; use a higher one"
        " if you trust the file, or give its path",
    )
