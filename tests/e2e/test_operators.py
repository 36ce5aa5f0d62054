"""Operators that generated code leaves to the runtime: lowered, run and compared with eager.

What they compute is tested by //backends/aoti/ops/tests:conformance; here it is that generated code
calls them, with the arguments that it has.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pteron.backends.aoti.ops.tests.torchvision_operators  # noqa: F401
from pteron.backends.aoti import inductor
from pteron.backends.cpu import CpuOptions
from tests.e2e.lowering import lower_to_file
from tests.random.coverage import shims_of

_Call = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = torch.randint(-64, 65, shape, generator=torch.Generator().manual_seed(0))
    return values.to(dtype) / 16 if dtype.is_floating_point else values.to(dtype)


def _bounded(x: torch.Tensor, most: int) -> torch.Tensor:
    """Memory for results is planned, so their sizes need a largest value."""
    torch._check(x.shape[0] <= most)
    return x


#: torch.export of 2.11 takes what `unique` counts for float32, and refuses uint8 in `_int_mm`.
_IS_2_11 = inductor.release() == "2.11"
_UNIQUE = {"return_inverse": not _IS_2_11, "return_counts": not _IS_2_11}


def _weights(n: torch.Tensor) -> torch.Tensor | None:
    """torch.export of 2.11 and 2.12 takes weighted counts for integers."""
    return None if inductor.release() in ("2.11", "2.12") else n.flatten() * 0.5


_X, _N = _numbers(6, 6), _numbers(6, 6).abs().long()
_POSITIVE = _X @ _X.t() + 6 * torch.eye(6)
_SIDES = _numbers(6, 3)
_BATCH = torch.stack([_POSITIVE, _POSITIVE + torch.eye(6)])
_INT8 = _numbers(32, 64, dtype=torch.int8)
_BOXES = torch.cat([_numbers(40, 2), _numbers(40, 2).flip(0).abs() + _numbers(40, 2) + 1], 1)
_ROIS = torch.cat([torch.arange(40.0)[:, None] % 2, _BOXES], 1)
_MAPS = _numbers(2, 8, 9, 11)
_vision = torch.ops.torchvision


def _composed(values: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    return vectors @ torch.diag_embed(values) @ vectors.mT


def _product(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> torch.Tensor:
    return u @ torch.diag_embed(s) @ vh


#: By the function that it is to call: what calls it, and with what.
CALLS: dict[str, _Call] = {
    "_linalg_solve_ex": (
        lambda a, b: (
            torch.linalg.solve(a, b),
            torch.linalg.solve(a, b[:, 0]),
            torch.linalg.solve(a, b.t(), left=False),
        ),
        (_POSITIVE, _SIDES),
    ),
    "linalg_inv_ex": (torch.linalg.inv, (_BATCH,)),
    "_linalg_det": (torch.linalg.det, (_BATCH,)),
    "_linalg_slogdet": (torch.linalg.slogdet, (_BATCH,)),
    "linalg_lu_solve": (
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
        (_POSITIVE, _SIDES),
    ),
    "linalg_cholesky_ex": (
        lambda a: (torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True)),
        (_BATCH,),
    ),
    "cholesky_solve": (
        lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)),
        (_POSITIVE, _SIDES),
    ),
    "cholesky_inverse": (torch.cholesky_inverse, (_POSITIVE.tril(),)),
    "linalg_solve_triangular": (
        lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True),
        (_POSITIVE, _SIDES),
    ),
    "linalg_qr": (
        lambda a: (torch.linalg.qr(a), torch.linalg.qr(a[:, :3], mode="complete")),
        (_POSITIVE,),
    ),
    # Vectors may have either sign.
    "_linalg_eigh": (
        lambda a: (
            torch.linalg.eigvalsh(a, UPLO="U"),
            _composed(*torch.linalg.eigh(a)),
            torch.linalg.pinv(a - a.mean(-1, keepdim=True), hermitian=True),
        ),
        (_BATCH,),
    ),
    "_linalg_svd": (
        lambda a, b: (
            torch.linalg.svdvals(a),
            _product(*torch.linalg.svd(b, full_matrices=False)),
            _product(*torch.linalg.svd(b.t(), full_matrices=False)),
            torch.linalg.svd(b)[0].mm(torch.linalg.svd(b)[0].t()),
            torch.linalg.pinv(b),
            torch.linalg.matrix_rank(a),
            torch.linalg.cond(a),
        ),
        (_BATCH, _SIDES),
    ),
    "linalg_lu_factor_ex": (
        lambda a: (torch.linalg.matrix_exp(a / 8), *torch.linalg.lu_factor(a)),
        (_BATCH,),
    ),
    "nonzero_static": (lambda x: torch.nonzero_static(x > 0, size=20, fill_value=-1), (_X,)),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), (_X,)),
    "masked_scatter": (lambda x: torch.masked_scatter(x, x > 0.3, x.flip(0) * 2), (_X,)),
    "_unique2": (lambda x: torch.unique(x, **_UNIQUE), (_X,)),
    "unique_dim": (lambda x: torch.unique(x[:, :1].round(), dim=0, **_UNIQUE), (_X,)),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x.sign(), **_UNIQUE), (_X,)),
    "median": (torch.median, (_X,)),
    "nanmedian": (lambda x: x.sqrt().nanmedian(), (_X,)),
    "median_dim": (lambda x: x.median(1), (_X,)),
    "nanmedian_dim": (lambda x: x.sqrt().nanmedian(0, keepdim=True).values, (_X,)),
    "mode": (lambda x: x.round().mode(1).values, (_X,)),
    "kthvalue": (lambda x: x.kthvalue(2, 1).values, (_X,)),
    # Of equal numbers the ones that torch takes.
    "topk": (
        lambda x: (x.sign().topk(5, 1), x.view(-1).round().topk(9, largest=False), x.topk(2, 0)),
        (_numbers(60, 40),),
    ),
    "searchsorted_Tensor": (
        lambda x: (
            torch.searchsorted(x.sort(-1).values, x + 0.2, right=True, out_int32=True),
            torch.searchsorted(x, x - 0.2, sorter=x.argsort(-1)),
        ),
        (_X,),
    ),
    "bucketize_Tensor": (lambda x: torch.bucketize(x, x[0].sort().values), (_X,)),
    "_cdist_forward": (
        lambda x: (torch.cdist(x, x + 1), torch.cdist(x[None], x + 1, p=3.5)),
        (_numbers(30, 6),),
    ),
    "_pdist_forward": (torch.pdist, (_X,)),
    "histc": (lambda x: (torch.histc(x, 5), torch.histc(x, 7, -1, 1)), (_X,)),
    "bincount": (
        lambda n: (
            _bounded(torch.bincount(n.flatten()), 256),
            _bounded(torch.bincount(n.flatten(), _weights(n), 20), 256),
        ),
        (_N,),
    ),
    "repeat_interleave_Tensor": (
        lambda x, n: (
            _bounded(torch.repeat_interleave(x, n, 0), 100),
            torch.repeat_interleave(x, n, 0, output_size=8),
        ),
        (_X, torch.tensor([1, 0, 2, 3, 1, 1])),
    ),
    "index_reduce": (
        lambda x, n: (
            x.index_reduce(0, n, x[:4], "amax"),
            x.index_reduce(1, n, x[:, :4], "prod", include_self=False),
        ),
        (_X, torch.tensor([1, 0, 2, 3])),
    ),
    "nms_mask": (
        lambda b, s: (_vision.nms(b, s, 0.3), b[_vision.nms(b.flip(0), s, 0.5)]),
        (_BOXES, _BOXES[:, 0].sign()),
    ),
    "roi_align": (
        lambda x, r: (
            _vision.roi_align(x, r, 0.9, 3, 2, 2, True),
            _vision.roi_align(x, r, 0.5, 2, 2, -1, False),
        ),
        (_MAPS, _ROIS),
    ),
    "ps_roi_align": (lambda x, r: _vision.ps_roi_align(x, r, 0.9, 2, 2, 2), (_MAPS, _ROIS)),
    "roi_pool": (lambda x, r: _vision.roi_pool(x, r, 0.9, 2, 3), (_MAPS, _ROIS)),
    "ps_roi_pool": (lambda x, r: _vision.ps_roi_pool(x, r, 0.9, 2, 4), (_MAPS, _ROIS)),
    "cumprod": (lambda x: (x / 4).cumprod(0), (_X,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (_X,)),
    "_fft_c2r": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x)), (_X,)),
    "_int_mm_out": (
        lambda a: (
            torch._int_mm(a, a.t()),
            torch._int_mm((a + 100).to(torch.int8 if _IS_2_11 else torch.uint8), a.t()),
        ),
        (_INT8,),
    ),
}
for _dtype in (torch.float32, torch.bfloat16, torch.float16):
    CALLS[f"_weight_int8pack_mm/{_dtype}"] = (
        torch._weight_int8pack_mm,
        (_numbers(4, 64, dtype=_dtype), _INT8, _numbers(32, dtype=_dtype) / 64),
    )


class Calls(nn.Module):
    """Some of the calls, side by side."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.functions = [CALLS[name][0] for name in names]
        self.counts = [len(CALLS[name][1]) for name in names]

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        rest = iter(inputs)
        return [
            function(*(next(rest) for _ in range(count)))
            for function, count in zip(self.functions, self.counts, strict=True)
        ]


def run(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], path: pathlib.Path, **options: Any
) -> tuple[list[torch.Tensor], list[str]]:
    """What a lowered module gives, and the functions that it calls."""
    exported = torch.export.export(module, inputs)
    program = lower_to_file(exported, path, CpuOptions(**options))
    found = program.load_method("forward").execute(list(inputs))
    return list(found), shims_of(path.read_bytes())


@pytest.mark.parametrize("first", range(0, len(CALLS), 20))
def test_results_are_eagers(first: int, tmp_path: pathlib.Path) -> None:
    names = list(CALLS)[first : first + 20]
    module = Calls(names)
    inputs = tuple(value for name in names for value in CALLS[name][1])
    found, shims = run(module, inputs, tmp_path / "model.pte")
    expected = torch.utils._pytree.tree_leaves(module(*inputs))
    assert {f"aoti_torch_cpu_{name.split('/')[0]}" for name in names} <= set(shims)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        rtol = 1e-2 if b.dtype in (torch.bfloat16, torch.float16) else 1e-4
        torch.testing.assert_close(a, b, rtol=rtol, atol=1e-4, equal_nan=True)


def test_draws_are_by_the_numbers(tmp_path: pathlib.Path) -> None:
    class Draws(nn.Module):
        def forward(self, p: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (
                torch.multinomial(p, 1000, replacement=True),
                torch.multinomial(p[0], 3),
                torch.randperm(100, device=p.device),
            )

    p = torch.tensor([[0.0, 1, 3, 4], [2, 0, 0, 0]])
    exported = torch.export.export(Draws(), (p,))
    method = lower_to_file(exported, tmp_path / "model.pte").load_method("forward")
    calls = [[value.clone() for value in method.execute([p])] for _ in range(2)]
    for many, few, order in calls:
        assert many.dtype == few.dtype == order.dtype == torch.int64
        counts = many[0].bincount(minlength=4)
        assert counts[0] == 0 and abs(counts[3] - 500) < 100 and not many[1].any()
        assert sorted(few.tolist()) == [1, 2, 3]
        assert sorted(order.tolist()) == list(range(100))
    assert not torch.equal(calls[0][0], calls[1][0]) and not torch.equal(calls[0][2], calls[1][2])


class Int8Linear(nn.Module):
    """Linear layers with weights of int8, and with both operands, as quantizers write them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", _INT8)
        self.register_buffer("scales", _numbers(32).abs() / 64 + 0.01)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weight_only = F.linear(x, self.weight.to(x.dtype)) * self.scales.to(x.dtype)
        scale = x.abs().amax(1, keepdim=True) / 127
        whole = (x / scale).round().clamp(-128, 127).to(torch.int8)
        # As unsigned numbers, which x86 multiplies faster.
        shifted = (whole.to(torch.int32) + 128).to(torch.uint8)
        sums = torch._int_mm(shifted, self.weight.t()) - 128 * self.weight.to(torch.int32).sum(1)
        return weight_only, (sums * scale * self.scales).to(x.dtype)


@pytest.mark.skipif(_IS_2_11, reason="torch.export of 2.11 refuses uint8 in _int_mm")
@pytest.mark.parametrize("gemm", ["library", "template"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int8_layers(dtype: torch.dtype, gemm: str, tmp_path: pathlib.Path) -> None:
    layer, x = Int8Linear(), _numbers(18, 64, dtype=dtype)
    found, _ = run(layer, (x,), tmp_path / "model.pte", gemm=gemm)
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
    for a, b in zip(found, layer(x), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * float(b.abs().max()))
