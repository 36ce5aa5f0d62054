"""Decompositions of linear algebra into factorizations and matmuls."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

_aten = torch.ops.aten


def linear_algebra() -> dict[OpOverload, Callable[..., Any]]:
    return {
        **_CHECKED,
        _aten.linalg_pinv.atol_rtol_tensor: _pseudo_inverse,
        _aten.linalg_matrix_exp.default: _matrix_exponential,
    }


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv_ex(matrix, check_errors=True).inverse


def _solution(matrix: torch.Tensor, right: torch.Tensor, *, left: bool = True) -> torch.Tensor:
    return torch.linalg.solve_ex(matrix, right, left=left, check_errors=True).result


def _cholesky(matrix: torch.Tensor, *, upper: bool = False) -> torch.Tensor:
    return torch.linalg.cholesky_ex(matrix, upper=upper, check_errors=True).L


def _lu_factor(matrix: torch.Tensor, *, pivot: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linalg.lu_factor_ex(matrix, pivot=pivot, check_errors=True)[:2]


#: Linear algebra that raises for some matrices, by operators that raise. torch's own decompositions
#: check separately: 2.11 loses the check, 2.13 orders it by an effect token.
_CHECKED: dict[OpOverload, Callable[..., Any]] = {
    _aten.linalg_inv.default: _inverse,
    _aten.inverse.default: _inverse,
    _aten.linalg_solve.default: _solution,
    _aten.linalg_cholesky.default: _cholesky,
    _aten.linalg_lu_factor.default: _lu_factor,
}


def _pseudo_inverse(
    matrix: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    """By singular values, or eigenvalues; those up to the tolerance are 0."""
    *_, rows, cols = matrix.shape
    if not isinstance(rows, int) or not isinstance(cols, int) or not rows * cols:
        return NotImplemented
    if hermitian:
        values, left = torch.linalg.eigh(matrix)
        right = left.mT
    else:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    sizes = values.abs()
    if rtol is None:
        rtol = matrix.new_full((), torch.finfo(matrix.dtype).eps * max(rows, cols))
        if atol is not None:
            rtol = torch.where(atol > 0, 0, rtol)
    least = rtol[..., None] * sizes.amax(-1, keepdim=True)
    if atol is not None:
        least = torch.maximum(least, atol[..., None])
    inverse = torch.where(sizes > least, values.reciprocal(), 0)
    return (right.mT * inverse[..., None, :]) @ left.mT


#: Of the Pade approximant of degree 13, and the largest 1-norm that it is for (Higham, 2005).
_PADE = [math.perm(26 - k, 13) / math.factorial(k) for k in range(14)]
_PADE_NORM = 5.37
#: Matrices are halved at most so often: norms up to 3.5e5.
_HALVINGS = 16


def _matrix_exponential(matrix: torch.Tensor) -> torch.Tensor:
    """Pade approximant of a matrix halved until its norm is small; its square as often.

    The number of halvings depends on the matrix, so all are computed, and the ones in excess not
    used; beyond 2^16 times that norm the result is NaN.
    """
    norm = matrix.abs().sum(-2).amax(-1)
    halvings = (norm / _PADE_NORM).log2().ceil().clamp(0, _HALVINGS)
    x = matrix * torch.exp2(-halvings)[..., None, None]
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(x)
    x2 = x @ x
    x4, b = x2 @ x2, [value / _PADE[0] for value in _PADE]
    x6 = x4 @ x2
    odd = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2
    odd = x @ (odd + b[1] * one)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + one
    result = torch.linalg.solve_ex(even - odd, even + odd).result
    for i in range(_HALVINGS):
        result = torch.where((i < halvings)[..., None, None], result @ result, result)
    is_small = norm <= _PADE_NORM * 2.0**_HALVINGS
    return torch.where(is_small[..., None, None], result, math.nan)
