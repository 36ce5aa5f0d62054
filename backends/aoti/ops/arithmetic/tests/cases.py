"""Arithmetic of complex numbers, and of real ones."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_C64, _C128 = torch.complex64, torch.complex128
_PAIRS = (
    (_C64, _C64),
    (_C64, torch.float32),
    (torch.float64, _C64),
    (_C128, torch.int64),
    (torch.float32, torch.float32),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float16),
    (torch.int32, torch.int64),
    (torch.uint8, torch.int8),
)


def cases() -> Iterator[Json]:
    for a_dtype, b_dtype in _PAIRS:
        for layout, a in layouts(numbers(2, 3, 4, dtype=a_dtype)):
            shape = {"row_major": (2, 3, 4), "swapped": (4,), "gaps": (2, 1, 4), "offset": ()}
            b = numbers(*shape[layout], dtype=b_dtype, seed=1)
            name = f"{short(a_dtype)}/{short(b_dtype)}/{layout}"
            yield case(name, "mul_Tensor", a, b, tolerance=1e-6)
            yield case(name, "add_Tensor", a, b, 2, tolerance=1e-6)
    z = numbers(2, 3, dtype=_C64)
    for shim, rest in (("mul_Tensor", ()), ("add_Tensor", (1,))):
        yield case("empty", shim, torch.zeros(0, 3), z[:1], *rest)
        yield case("no_dimensions", shim, torch.tensor(1.5), torch.tensor(2), *rest)
        yield case("half_by_float", shim, numbers(1, dtype=torch.float16), z[0, 0].real, *rest)
        yield error(
            "sizes", shim, z, z.t(), *rest, parts=["complex64[3, 2]", "broadcast with [2, 3]"]
        )
        yield error("null", shim, z, None, *rest, parts=["other is a null handle"])

    for name, x in variants((_C64, _C128, *REAL), 2, 3, 4):
        yield case(name, "abs", x, tolerance=1e-6)
    n = numbers(3, dtype=torch.int32)
    yield case("minus", "add_Tensor", n, n[:1], -1)
    lowest = torch.tensor([-(2**63), 2**63 - 1])
    yield case("lowest", "abs", lowest)
    yield error("null", "abs", None, parts=["self is a null handle"])

    for name, x in variants((*REAL, torch.bool, _C64, _C128), 2, 3):
        yield case(name, "fill__Scalar", x, 2.5, written=0)
    yield case("empty", "fill__Scalar", torch.zeros(0), 1.0, written=0)
    yield error("null", "fill__Scalar", None, 1.0, parts=["self is a null handle"])

    for dtype in (torch.float32, torch.float64):
        length, angle = numbers(3, 4, dtype=dtype), numbers(4, dtype=dtype, seed=1)
        yield case(short(dtype), "polar", length.t(), angle[:3], tolerance=1e-6)
    length = length.float()
    yield error("dtypes", "polar", length, angle.int(), parts=["found abs", "angle int32[4]"])

    z = numbers(3, 4, dtype=_C64) / 2
    z[0, 0] = 0
    w = numbers(3, 4, dtype=_C64, seed=1) / 4
    yield case("complex", "pow_Tensor_Tensor", z.t(), w.t(), tolerance=1e-5)
    yield case("mixed", "pow_Tensor_Tensor", z, w.real.double()[0].abs(), tolerance=1e-5)
    real = numbers(3, 4).abs()
    yield case("real", "pow_Tensor_Tensor", real, numbers(3, 1, seed=1), tolerance=1e-5)
    for dtype in INTEGERS:
        n = numbers(3, 4, dtype=dtype)
        yield case(short(dtype), "pow_Tensor_Tensor", n, n[0].abs())
        yield case(short(dtype), "pow_Tensor_Scalar", n, 5)
        yield case(short(dtype), "pow_Scalar", 3, n.abs())
    for exponent in (0, 2, -1.5, 0.5):
        yield case(f"complex/{exponent}", "pow_Tensor_Scalar", z[1:], exponent, tolerance=1e-5)
    yield case("complex", "pow_Scalar", 2.5, z, tolerance=1e-5)
    yield case("half", "pow_Tensor_Scalar", n.abs(), 0.5, tolerance=1e-6)
    sizes = numbers(2, dtype=_C64)
    yield error("sizes", "pow_Tensor_Tensor", z, sizes, parts=["complex64[2]", "broadcast"])
    yield error("null", "pow_Tensor_Scalar", None, 1.0, parts=["self is a null handle"])
    yield error("null", "pow_Scalar", 1.0, None, parts=["exponent is a null handle"])
