"""Complex numbers, views: shims against torch's operators."""

import ctypes

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    ShimError,
    ShimLibrary,
    dtype_number,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    FLOATING,
    INTEGERS,
    check,
    layouts,
    values,
)

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_views(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x in layouts(values(4, 5, dtype=dtype)):
        check(shims.call("cpu_view_as_real", x, results=1), torch.view_as_real(x))
        pairs = torch.view_as_real(x)
        if pairs.storage_offset() % 2 == 0:
            check(shims.call("cpu_view_as_complex", pairs, results=1), torch.view_as_complex(pairs))
    with pytest.raises(ShimError):
        shims.call("cpu_view_as_complex", values(4, 3), results=1)
    with pytest.raises(ShimError):
        shims.call("cpu_view_as_real", values(4, 3), results=1)


def test_view_dtype(shims: ShimLibrary) -> None:
    for x in (values(4, 6), values(4, 12)[:, :6], values(3, 4, 8)):
        for dtype in (torch.int32, torch.int16, torch.uint8, torch.float64, torch.complex64):
            number = ctypes.c_int32(dtype_number(dtype))
            check(shims.call("cpu_view_dtype", x, number, results=1), aten.view.dtype(x, dtype))
    with pytest.raises(ShimError):
        shims.call("cpu_view_dtype", values(4, 5), ctypes.c_int32(7), results=1)


def test_permute(shims: ShimLibrary) -> None:
    for x in layouts(values(3, 4, 5)):
        for dims in ([2, 0, 1], [0, 1, 2], [-1, -2, -3]):
            check(shims.call("cpu_permute", x, dims, results=1), x.permute(dims))
    for dims in ([0, 1], [0, 0, 1], [0, 1, 3]):
        with pytest.raises(ShimError):
            shims.call("cpu_permute", values(3, 4, 5), dims, results=1)


def test_fill(shims: ShimLibrary) -> None:
    for dtype in FLOATING + INTEGERS + [torch.bool, torch.complex64]:
        for x in layouts(values(3, 4, dtype=dtype)):
            shims.call("cpu_fill__Scalar", x, 2.5)
            check(x.contiguous(), torch.full(x.shape, 2.5, dtype=dtype))


BINARY_DTYPES = [
    (torch.complex64, torch.complex64),
    (torch.complex64, torch.float32),
    (torch.float64, torch.complex64),
    (torch.complex128, torch.int64),
    (torch.float32, torch.float32),
    (torch.float16, torch.float32),
    (torch.int32, torch.int64),
]


@pytest.mark.parametrize("a_dtype,b_dtype", BINARY_DTYPES, ids=str)
def test_mul_and_add(shims: ShimLibrary, a_dtype: torch.dtype, b_dtype: torch.dtype) -> None:
    for b_shape in ((4, 5, 6), (6,), (4, 1, 6), ()):
        b = values(*b_shape, dtype=b_dtype)
        for a in layouts(values(4, 5, 6, dtype=a_dtype)):
            check(shims.call("cpu_mul_Tensor", a, b, results=1), aten.mul.Tensor(a, b), 1e-3)
            check(
                shims.call("cpu_add_Tensor", a, b, 2.0, results=1),
                aten.add.Tensor(a, b, alpha=2),
                1e-3,
            )


@pytest.mark.parametrize(
    "dtype",
    [torch.complex64, torch.complex128, torch.float32, torch.int64, torch.bfloat16],
    ids=str,
)
def test_abs(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x in layouts(values(4, 5, 6, dtype=dtype)):
        check(shims.call("cpu_abs", x, results=1), aten.abs(x), 1e-6)
