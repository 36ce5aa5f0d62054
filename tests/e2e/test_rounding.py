"""Values are rounded where eager rounds them, are those of their dtype, and NaN stays NaN."""

import pathlib
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from pteron.backends.cpu import CpuOptions
from pteron.backends.cpu.isa import LEVELS, Isa, machine_features
from pteron.runtime import Method
from tests.e2e.lowering import lower_to_file
from tests.models.rounding import DECISIONS, DECISIONS_ON_SUMS, Conversions, Decisions, halves


def _lower(
    model: nn.Module, inputs: tuple[Any, ...], path: pathlib.Path, isa: str = "auto", **more: Any
) -> Method:
    options = CpuOptions() if isa == "auto" else CpuOptions(isa=isa)
    exported = torch.export.export(model.eval(), inputs, **more)
    return lower_to_file(exported, path, options).load_method("forward")


def _different(found: Any, expected: Any) -> list[str]:
    """Of two nested results, the paths of the tensors that are not equal; NaN is equal to NaN."""
    leaves, spec = pytree.tree_flatten_with_path(expected)
    others = pytree.tree_leaves(found)
    assert len(others) == len(leaves)
    return [
        f"{pytree.keystr(path)}: {other[other != value][:4]}, expected {value[other != value][:4]}"
        for (path, value), other in zip(leaves, others, strict=True)
        if other.dtype != value.dtype or not torch.equal(other.nan_to_num(7), value.nan_to_num(7))
    ]


_levels = pytest.mark.parametrize(
    "isa", [isa for isa in LEVELS if isa.vector_bits], ids=lambda isa: isa.name
)


def _skip_unless_it_runs(isa: Isa) -> None:
    if not isa.features <= machine_features():
        pytest.skip(f"this machine has no {isa.name}")


@_levels
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_decisions_on_halves(tmp_path: pathlib.Path, dtype: torch.dtype, isa: Isa) -> None:
    _skip_unless_it_runs(isa)
    model, x = Decisions(DECISIONS | DECISIONS_ON_SUMS), halves(dtype)
    method = _lower(model, (x,), tmp_path / "model.pte", isa.name)
    assert _different(method.execute((x,)), model(x)) == []


@_levels
def test_conversions_of_indices(tmp_path: pathlib.Path, isa: Isa) -> None:
    _skip_unless_it_runs(isa)
    x = torch.zeros(1)
    method = _lower(Conversions(), (x,), tmp_path / "model.pte", isa.name)
    assert _different(method.execute((x,)), Conversions()(x)) == []


class _NotFinite(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros_like(x)
        products = x * 0.0, x * 0, zeros * x, (x * 0.0 + 1).log(), x - x, x / x
        return *products, F.softshrink(x), F.hardshrink(x), torch.sin(torch.atan(x)), x % 3, 0.3 % x


def test_what_is_not_finite_stays_so(tmp_path: pathlib.Path) -> None:
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    method = _lower(_NotFinite(), (x,), tmp_path / "model.pte")
    x[0, 3], x[1, 2], x[2, 9], x[2, 15] = float("nan"), float("inf"), -float("inf"), 0.1
    for found, expected in zip(method.execute((x,)), _NotFinite()(x), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-6, atol=1e-6)


class _Statistics(nn.Module):
    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> tuple[torch.Tensor, ...]:
        means = x.mean(), x.mean(0), x.t().mean(-1), x.bfloat16().mean(0), x.nanmean(0)
        pairs = *torch.var_mean(x, dim=0), *torch.std_mean(x), *torch.var_mean(x, 0, correction=0)
        sums = x.sum(0), x.prod(0), (x > 0).all(0), (x > 0).any(0), x.logsumexp(0), x.norm(dim=0)
        losses = F.mse_loss(x, x * 2), F.cross_entropy(x, x.argmax(1)), F.l1_loss(x, -x)
        picked = x[:, 0][chosen]
        torch._check(picked.shape[0] <= 9)
        of_picked = picked.mean(), *torch.var_mean(picked, correction=0)
        return *means, *pairs, x.var(0), x.std(), *sums, *losses, *of_picked, x.softmax(0)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dynamic", [True, False])
def test_statistics_of_none(tmp_path: pathlib.Path, dynamic: bool) -> None:
    def inputs(rows: int, share: float = 0.5) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(rows)
        return torch.randn(rows, 4, generator=generator), torch.arange(rows) < rows * share

    rows = {0: Dim("rows", min=0, max=9)}
    shapes: Any = {"dynamic_shapes": (rows, rows)} if dynamic else {}
    method = _lower(_Statistics(), inputs(5 if dynamic else 0), tmp_path / "model.pte", **shapes)
    for given in [(0,), (1,), (9,), (9, 0)] if dynamic else [(0,)]:
        found = method.execute(inputs(*given))
        for one, expected in zip(found, _Statistics()(*inputs(*given)), strict=True):
            torch.testing.assert_close(one, expected, equal_nan=True, rtol=1.3e-6, atol=1e-5)


class _Integers(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a @ b, a[0] @ b[0], a[0, 0] @ b[0], torch.einsum("bik,bkj->ij", a, b), a.mT @ b.mT


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int64], ids=str)
def test_products_of_integers(tmp_path: pathlib.Path, dtype: torch.dtype) -> None:
    a, b = (torch.randint(0, 100, shape).to(dtype) for shape in ((1, 1, 2), (1, 2, 1)))
    method = _lower(_Integers(), (a, b), tmp_path / "model.pte")
    assert _different(method.execute((a, b)), _Integers()(a, b)) == []
