"""Systems of linear equations and factors of matrices."""

import functools
from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_DTYPES = (torch.float32, torch.float64)
_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-13}


def invertible(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return numbers(*shape, dtype=dtype, seed=seed) + 8 * torch.eye(shape[-1], dtype=dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = numbers(*shape, dtype=dtype) / 4
    return x @ x.mT + torch.eye(shape[-1], dtype=dtype)


def _cholesky(matrix: torch.Tensor, upper: bool) -> torch.Tensor:
    return torch.linalg.cholesky(matrix, upper=upper)


def cases() -> Iterator[Json]:
    for dtype in _DTYPES:
        near = functools.partial(case, tolerance=_TOLERANCE[dtype])
        name = short(dtype)
        b = numbers(2, 4, 3, dtype=dtype, seed=1)
        for layout, a in layouts(invertible(2, 4, 4, dtype=dtype)):
            yield near(f"{name}/{layout}", "_linalg_solve_ex", a, b, True, False, unchecked=[1, 2])
        a = invertible(2, 4, 4, dtype=dtype)
        for what, left, sides in (
            ("right", False, numbers(2, 3, 4, dtype=dtype)),
            ("one_right", False, numbers(3, 4, dtype=dtype)),
            ("vectors", True, numbers(2, 4, dtype=dtype)),
            ("broadcast", True, numbers(3, 1, 4, 2, dtype=dtype)),
        ):
            arguments = (a, sides, left, True)
            yield near(f"{name}/{what}", "_linalg_solve_ex", *arguments, unchecked=[1, 2])
        yield near(
            f"{name}/vector", "_linalg_solve_ex", *(a[0], b[0, :, 0], True, True), unchecked=[1, 2]
        )
        yield near(f"{name}/inverse", "linalg_inv_ex", a, True)
        yield near(f"{name}/tall", "linalg_lu_factor_ex", b, True, False)
        yield near(f"{name}/square", "linalg_lu_factor_ex", a, True, True)
        lu, pivots = torch.linalg.lu_factor(a)
        for left in (True, False):
            for adjoint in (True, False):
                sides = b if left else b.mT
                what = f"{name}/{'left' if left else 'right'}{'/adjoint' if adjoint else ''}"
                yield near(what, "linalg_lu_solve", lu, pivots, sides, left, adjoint)
        yield near(f"{name}/batch", "_linalg_det", a, unchecked=[1, 2])
        yield near(f"{name}/one", "_linalg_det", -a[0], unchecked=[1, 2])
        yield near(f"{name}/batch", "_linalg_slogdet", a, unchecked=[2, 3])
        p = positive(2, 4, 4, dtype=dtype)
        for upper in (False, True):
            side = "upper" if upper else "lower"
            yield near(f"{name}/{side}", "linalg_cholesky_ex", p, upper, True)
            factor = torch.linalg.cholesky(p, upper=upper)
            # torch 2.14 has no such operator, but earlier programs call it.
            yield near(f"{name}/{side}", "cholesky", p, upper, reference=_cholesky)
            yield near(f"{name}/{side}", "cholesky_solve", b, factor, upper)
            yield near(f"{name}/{side}", "cholesky_inverse", factor, upper)
            triangle = a.triu() if upper else a.tril()
            for unit in (False, True):
                what = f"{name}/{side}{'/unit' if unit else ''}"
                shim, scaled = "linalg_solve_triangular", triangle / 8
                yield near(what, shim, scaled, b, upper, True, unit)
                yield near(f"{what}/right", shim, scaled, b.mT, upper, False, unit)
                for transpose in (False, True):
                    whole = f"{what}{'/transposed' if transpose else ''}"
                    yield near(whole, "triangular_solve", b, scaled, upper, transpose, unit)
        for mode in ("reduced", "complete", "r"):
            yield near(f"{name}/tall/{mode}", "linalg_qr", b, mode)
            yield near(f"{name}/wide/{mode}", "linalg_qr", b.mT, mode)
        yield near(f"{name}/square", "linalg_qr", a, "reduced")
        for layout, matrix in layouts(p):
            for what, uplo in (("lower", "L"), ("upper", "U")):
                name = f"{short(dtype)}/{layout}/{what}"
                # Vectors may have either sign.
                yield near(name, "_linalg_eigh", matrix, uplo, True, unchecked=[1])
                yield near(f"{name}/values", "_linalg_eigh", matrix, uplo, False)
        for layout, matrix in layouts(b):
            for full in (False, True):
                for what, x in (("tall", matrix), ("wide", matrix.mT), ("square", a)):
                    name = f"{short(dtype)}/{layout}/{full}/{what}"
                    yield near(name, "_linalg_svd", x, full, True, None, unchecked=[0, 2])
            yield near(f"{short(dtype)}/{layout}/values", "_linalg_svd", matrix, False, False, None)
    yield case("no_matrices", "_linalg_eigh", torch.zeros(0, 3, 3), "L", True)
    yield case("no_rows", "_linalg_eigh", torch.zeros(2, 0, 0), "L", True)
    yield case("no_matrices", "_linalg_svd", torch.zeros(0, 3, 2), False, True, None)
    lu, pivots = torch.linalg.lu_factor(invertible(2, 3, 3))
    for row in (-(2**31), 0, 4, 2**31 - 1):
        pivots[1, 2] = row
        parts = [f"found pivot {row}, expected 1 to 3"]
        sides = numbers(2, 3, 2)
        yield error(
            f"pivot_{row}",
            "linalg_lu_solve",
            lu,
            pivots,
            sides,
            True,
            False,
            parts=parts,
            host=True,
        )
    parts = ["matrix 0", "finite"]
    for name, number in (("nan", float("nan")), ("infinite", -float("inf"))):
        x = numbers(4, 4)
        x[0, 0] = number
        yield error(name, "_linalg_svd", x, False, True, None, parts=parts, host=True)
    empty, parts = torch.zeros(2, 0, 3), ["expected rows and columns"]
    yield error("no_rows", "_linalg_svd", empty, False, True, None, parts=parts)
    singular = torch.ones(3, 3)
    yield case("identities", "linalg_inv_ex", torch.eye(3)[None].repeat(2, 1, 1), False)
    yield case("empty", "_linalg_solve_ex", torch.zeros(0, 0), torch.zeros(0, 2), True, False)
    yield case("no_matrices", "linalg_inv_ex", torch.zeros(0, 3, 3), False)
    yield case("no_matrices", "_linalg_det", torch.zeros(0, 3, 3))
    yield case("no_matrices", "_linalg_slogdet", torch.zeros(0, 3, 3))
    # 40 on the diagonal, and one less with each step away from it.
    large = Formula(40, 40, of=(1, 40, 41, 0, 1), dtype=torch.float32)
    yield case("large", "linalg_cholesky_ex", large, False, False, tolerance=2e-5)

    x = numbers(2, 3)
    for shim, rest in (
        ("_linalg_solve_ex", (numbers(2, 2), True, False)),
        ("linalg_lu_solve", (torch.ones(2, dtype=torch.int32), numbers(2, 2), True, False)),
        ("linalg_inv_ex", (False,)),
        ("_linalg_det", ()),
        ("_linalg_slogdet", ()),
        ("_linalg_eigh", ("L", True)),
        ("linalg_cholesky_ex", (False, False)),
        ("cholesky", (False,)),
        ("cholesky_inverse", (False,)),
        ("linalg_solve_triangular", (numbers(2, 2), True, True, False)),
    ):
        yield error(
            "not_square", shim, x, *rest, parts=["float32[2, 3]", "expected square matrices"]
        )
        if not shim.endswith("triangular"):
            wrong = numbers(2, 2, dtype=torch.int64)
            yield error("dtype", shim, wrong, *rest, parts=["found", "expected float32 or float64"])
    yield error("not_square", "cholesky_solve", x, x, False, parts=["expected square matrices"])
    yield error("rows", "cholesky_solve", x, positive(3, 3), False, parts=["as many rows of B"])
    yield error("rows", "triangular_solve", x, positive(3, 3), *[False] * 3, parts=["rows of B"])
    yield error("vector", "linalg_lu_factor_ex", numbers(3), True, False, parts=["matrices"])
    yield error("mode", "linalg_qr", x, "thin", parts=["found mode thin, expected reduced"])
    yield error(
        "singular",
        "_linalg_solve_ex",
        *(singular, numbers(3, 1), True, True),
        parts=["matrix 0 of the batch", "column 2", "inverted"],
    )
    yield error("singular", "linalg_inv_ex", singular, True, parts=["column 2"])
    yield error("indefinite", "cholesky", -torch.eye(3), False, parts=["column 1", "positive"])
