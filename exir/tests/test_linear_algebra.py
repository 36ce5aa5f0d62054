"""Pseudoinverses and exponentials of matrices give what torch's operators give."""

import pytest
import torch

from pteron.exir.operators.linear_algebra import linear_algebra

aten = torch.ops.aten
TABLE = linear_algebra()


@pytest.mark.parametrize("shape", [(2, 5, 4), (4, 6), (1, 1)], ids=str)
def test_pseudo_inverses(shape: tuple[int, ...]) -> None:
    op = aten.linalg_pinv.atol_rtol_tensor
    matrix = torch.randn(shape, dtype=torch.float64)
    singular = torch.ones(shape, dtype=torch.float64)
    for options in (
        {},
        {"rtol": torch.tensor(0.3, dtype=torch.float64)},
        {"atol": torch.tensor(0.5, dtype=torch.float64)},
    ):
        for value in (matrix, singular):
            torch.testing.assert_close(TABLE[op](value, **options), op(value, **options))
        square = matrix @ matrix.mT
        found = TABLE[op](square, hermitian=True, **options)
        torch.testing.assert_close(found, op(square, hermitian=True, **options))


@pytest.mark.parametrize("size", [0.01, 0.5, 3, 20, 300])
def test_exponentials_of_matrices(size: float) -> None:
    op = aten.linalg_matrix_exp.default
    matrix = torch.randn(3, 6, 6, dtype=torch.float64) * size
    matrix = matrix - matrix.mT  # so that the exponential is a rotation
    matrix[0] = -size * torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(TABLE[op](matrix), op(matrix), rtol=1e-10, atol=1e-10)
    narrow = matrix.float()
    torch.testing.assert_close(TABLE[op](narrow).double(), op(narrow.double()), rtol=0, atol=1e-3)


def test_exponentials_of_huge_matrices_are_nan() -> None:
    assert TABLE[aten.linalg_matrix_exp.default](torch.full((2, 2), 1e9)).isnan().all()
