"""Integers divided in loops on the CPU: by 0, or to a quotient that the type does not hold, is an
error, as it is in eager, where a processor would end the process.

Inductor divides unchecked, or (torch 2.13, some operators) records the error behind a pointer that
all kernels on all threads share. The functions called here are in the header of kernels
(`toolchain`); vectors go through them element by element, as they do in at::vec.
"""

from collections.abc import Callable
from typing import Any

from pteron.backends.aoti.inductor.patches import Context, patched, together
from pteron.backends.aoti.inductor.places import place_in_kernel

PLACES = (
    "torch._inductor.codegen.cpp.CppOverrides: floordiv truncdiv mod; "
    "torch._inductor.codegen.cpp.CppVecOverrides: floordiv truncdiv mod remainder _scalarize"
)
_FUNCTIONS = {
    "floordiv": "pteron_floor_divide",
    "truncdiv": "pteron_divide",
    "remainder": "pteron_remainder",
    "mod": "pteron_modulo",
}

_OPERATORS = ("div", "remainder", "fmod")


def check_integer_divisions() -> Context:
    """See the module's docstring."""
    from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

    changed = []
    for name, function in _FUNCTIONS.items():
        of_scalars = _call(name, function)
        of_vectors = CppVecOverrides._scalarize(of_scalars)
        if name in ("floordiv", "remainder"):  # also floating-point
            of_vectors = _of_integers(of_vectors, getattr(CppVecOverrides, name))
        of_vectors.__name__ = name  # Inductor looks up the scalar overload by it
        changed.append(patched(CppVecOverrides, name, staticmethod(of_vectors)))
        if name != "remainder":  # implemented by `mod`
            changed.append(patched(CppOverrides, name, staticmethod(of_scalars)))
    return together(*changed)


def _call(name: str, function: str) -> Callable[[Any, Any], str]:
    def call(a: Any, b: Any) -> str:
        return f"{function}({a}, {b}, {place_in_kernel(_OPERATORS)})"

    call.__name__ = name
    return call


def _of_integers(of_integers: Any, otherwise: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: (otherwise if a.dtype.is_floating_point else of_integers)(a, b)
