"""The C++ sides of benchmarks, whose functions return a negative number or null on failure."""

import ctypes
from pathlib import Path
from typing import Any


def open_native(name: str, **signatures: tuple[Any, ...]) -> ctypes.CDLL:
    """A library of this folder; of each function its result's and its arguments' types.

    A function that fails raises RuntimeError; it has printed why.
    """
    library = ctypes.CDLL(str(Path(__file__).with_name(name)))
    for symbol, (result, *arguments) in signatures.items():
        function = getattr(library, symbol)
        function.restype, function.argtypes, function.errcheck = result, arguments, _checked
    return library


def _checked(result: Any, function: Any, arguments: Any) -> Any:
    del arguments
    if result is None or result < 0:
        raise RuntimeError(f"{function.__name__} failed")
    return result
