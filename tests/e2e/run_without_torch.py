"""Runs a program on inputs_{seed}.npz beside it where torch cannot be imported.

Writes outputs_{seed}.npz. Fails if anything tried to import torch. numpy has no bfloat16: such
arrays are uint16 in the files, and their names begin with "bfloat16".
"""

import sys

sys.modules["torch"] = None  # type: ignore[assignment]  # any `import torch` raises from here on

import ctypes  # noqa: E402
import pathlib  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402

from pteron.runtime import Runtime  # noqa: E402

_PROGRAM = flags.DEFINE_string("program", None, "The .pte file.", required=True)
_CALLS = flags.DEFINE_integer("calls", 1, "How many inputs files there are.")


_UINT, _BFLOAT = 1, 4  # type codes of DLPack
_CODE_OFFSET = 20  # of the type code in a DLManagedTensor

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Retyped:
    """An array's memory, exported by DLPack with another type code."""

    def __init__(self, array: Any, found: int, code: int):
        self._array, self._found, self._code = array, found, code

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self._array.__dlpack__()
        code = ctypes.c_uint8.from_address(_pointer(capsule, b"dltensor") + _CODE_OFFSET)
        assert code.value == self._found, code.value
        code.value = self._code
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def _input(name: str, array: np.ndarray[Any, Any]) -> Any:
    if name.startswith("bfloat16"):
        return _Retyped(array, _UINT, _BFLOAT)
    # A 0-d array stands for the python scalar it was made from.
    return array if array.ndim else array.item()


def _outputs(values: list[Any]) -> dict[str, np.ndarray[Any, Any]]:
    named = {}
    for index, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.dtype == "bfloat16":  # ml_dtypes is installed
            named[f"bfloat16_{index}"] = value.view(np.uint16)
        elif getattr(value, "dtype", None) == "bfloat16":
            named[f"bfloat16_{index}"] = np.from_dlpack(_Retyped(value, _BFLOAT, _UINT))
        else:
            named[f"output_{index}"] = np.asarray(value)
    return named


def main(argv: list[str]) -> None:
    del argv
    program = pathlib.Path(_PROGRAM.value)
    method = Runtime.get().load_program(program).load_method("forward")
    for seed in range(_CALLS.value):
        with np.load(program.parent / f"inputs_{seed}.npz") as archive:
            values = [_input(name, archive[name]) for name in archive.files]
        outputs = _outputs(method.execute(values))
        np.savez(program.parent / f"outputs_{seed}.npz", **outputs)


if __name__ == "__main__":
    app.run(main)
