"""The entry point of the binding."""

from __future__ import annotations

import os

import pteron.runtime.python._native as _native
from pteron.runtime.python.backend_registry import BackendRegistry
from pteron.runtime.python.program import Program
from pteron.runtime.python.verification import Verification

TYPE_CHECKING = False  # not from typing, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import BinaryIO

    _Path = str | os.PathLike[str]


class OperatorRegistry:
    """The kernels that programs can call outside their delegates."""

    @property
    def operator_names(self) -> set[str]:
        return set(_native.registered_kernels())


class Runtime:
    """Loads programs. There is one in a process: `Runtime.get()`."""

    _instance: Runtime | None = None

    def __init__(self) -> None:
        self.backend_registry = BackendRegistry()
        self.operator_registry = OperatorRegistry()

    @staticmethod
    def get() -> Runtime:
        if Runtime._instance is None:
            Runtime._instance = Runtime()
        return Runtime._instance

    def load_program(
        self,
        data: _Path | bytes | bytearray | memoryview | BinaryIO,
        *,
        verification: Verification = Verification.InternalConsistency,
        data_path: _Path | Sequence[_Path] | None = None,
        allowed_backends: Collection[str] | None = None,
    ) -> Program:
        """Opens a program file.

        Args:
          data: its path (the file is mapped, not read), its bytes, or a binary file to read.
          verification: how much is checked.
          data_path: tensor-data files (.ptd) with what the program keeps outside, one or several.
          allowed_backends: ids of the backends that the program's delegates may have; by default
            all. A delegate is native code in most backends, so give `()` for a file from somebody
            you do not trust.
        """
        if isinstance(allowed_backends, str):
            raise TypeError("allowed_backends: found a str, expected a collection of them")
        if data_path is None:
            data_path = []
        elif isinstance(data_path, (str, os.PathLike)):
            data_path = [data_path]
        options = (
            verification.value,
            [os.fsencode(path) for path in data_path],
            None if allowed_backends is None else list(allowed_backends),
        )
        if isinstance(data, (str, os.PathLike)):
            return Program(_native.load_path(os.fsencode(data), *options))
        if hasattr(data, "read"):
            data = data.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"a program is a path, bytes or a binary file; found {type(data).__name__}"
            )
        return Program(_native.load_bytes(bytes(data), *options))
