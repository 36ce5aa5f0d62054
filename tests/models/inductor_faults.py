"""What PyTorch's issues report as wrong results of Inductor, where it can reach us.

A case's name begins with the number of the issue or pull request, if there is one. Those whose
fault the supported releases have are fixed in backends/aoti/inductor/*_repairs.py; the others
keep us from a release that has it again.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.cases import Applies, Case


def _case(name: str, function: Callable[..., Any], *inputs: Any, p: tuple[int, ...] = ()) -> Case:
    """`function` of `inputs` and of a parameter of shape `p`."""
    return Case(name, lambda: Applies(function, *p), inputs)


def _module(name: str, build: Callable[[], nn.Module], *inputs: Any) -> Case:
    return Case(name, build, inputs)


def _extremes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = x.reshape(5, 18)
    return x.min(), x.max(), x.argmin(), x.argmax(), rows.amin(1), *rows.max(0), *rows.min(1)


def _padded_product(x: torch.Tensor) -> torch.Tensor:
    v = F.gelu(x.permute(0, 3, 1, 2))
    left = F.pad(v, (0, 0, 0, 0, 0, 14), value=0.5)
    return left @ F.pad(v.permute(3, 2, 1, 0), (0, 0, 0, 14), value=0.5)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = (m(10, 20, batch_first=True) for m in (nn.LSTM, nn.GRU))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.lstm(x)[0], self.gru(x)[0]


class _NormSum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.convolution = nn.GroupNorm(4, 20), nn.Conv1d(20, 7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(self.norm(x).sum(-1))


class _Normed(nn.Module):
    """A convolution, transposed or not, whose result is normed and also used as it is."""

    def __init__(self, kind: type[nn.Module], shared: bool, groups: int = 1) -> None:
        super().__init__()
        self.convolution, self.shared = kind(4, 8, 3, groups=groups), shared
        self.norm = nn.BatchNorm2d(8)
        for values in (self.norm.weight, self.norm.bias, self.norm.running_mean):
            nn.init.normal_(values)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.convolution(x)
        return (self.norm(y), y) if self.shared else self.norm(y)


def _nan(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.masked_fill(x > 2, float("nan"))
    return x.argmax(1), x.argmin(0), x.amax(0), x.max(), *x.min(1)


_PERMUTED = torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).t()
_BYTES = torch.tensor([5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80] * 5)

REDUCTIONS = (
    _case("191499_uint8", _extremes, _BYTES.to(torch.uint8)),
    _case("191499_int8", _extremes, _BYTES.to(torch.int8)),
    _case("191499_int8_negative", _extremes, -_BYTES.to(torch.int8)),
    _case("196681_tail_of_two_tiled_loops", _padded_product, (1, 22, 22, 8)),
    _module("181690_recurrent", _Recurrent, (3, 5, 10)),
    _module("181618_norm_sum_convolution", _NormSum, (2, 20, 18, 11)),
    _case("163929_argmin_transposed", lambda x: (x.tan().t().argmin(), x.t().argmax()), (5, 7)),
    _case(
        "174073_argmax_permuted", lambda x, y: ((x.mT + y).argmax(), y.argmin()), (5, 7), _PERMUTED
    ),
    _case("118266_argmax_of_nan", _nan, (9, 37)),
    _case(
        "185702_stacked", lambda x, y: torch.stack([x[..., 16].erf(), y], -1), (4, 8, 17), (4, 8)
    ),
)


def _slice_scatter(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    y = torch.slice_scatter(x, source[1:3], 0, 1, 3)
    x.zero_()
    return y


def _diagonal_scatter(x: torch.Tensor) -> torch.Tensor:
    y = torch.diagonal_scatter(x, x.diagonal())
    x.fill_(2)
    return y


def _clone_between(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    x.index_fill_(0, index, 3.0)
    y = x.clone()
    x.clamp_(-0.1, 0.1)
    return y


def _shift(x: torch.Tensor) -> torch.Tensor:
    x[1:] = x[:-1].clone()
    return x * 2


def _scatter_and_gather(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    found = x.new_zeros(1, x.shape[1]).scatter_add(0, index[:, None].expand_as(x), x)
    return found.index_select(0, index)


def _flipped_after_a_write(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    x.index_copy_(0, index, x[index] * 3 - 1)
    x.add_(x.flip(0))
    return x.sum(1)


def _of_bases(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y[2:].as_strided((2, 16), (16, 1), 16), y[:, ::2].as_strided((3, 2), (16, 1))


def _masked_after_a_view(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.cumsum(0)
    doubled, last = y.view(-1) * 2, y[-1].exp()
    y[y > 0.5] = 0.25
    return doubled, last, y


WRITES = (
    _case("masked_after_a_view", _masked_after_a_view, (7, 5, 6)),
    _case("198094_slice_scatter", _slice_scatter, (4, 6), (4, 6)),
    _case("198094_diagonal_scatter", _diagonal_scatter, (4, 4)),
    _case("198094_clone_between", _clone_between, (4, 4), torch.tensor([1])),
    _case("197829_input", _shift, (4, 6)),
    _case("197829_value", lambda x: _shift(x + 1), (4, 6)),
    _case("191571_scatter_and_gather", _scatter_and_gather, (8, 4), torch.zeros(8, dtype=int)),
    _case("198270_flipped_after_a_write", _flipped_after_a_write, (6, 5), torch.tensor([4, 0])),
    _case("175325_as_strided_of_a_view", _of_bases, (8, 16)),
)


def _sum_of_constants(x: torch.Tensor) -> torch.Tensor:
    return x + torch.full((2, 4, 4), 2.7).cumsum(1, dtype=torch.int64)


def _divide(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return a // b, a // 0.1, a % b


def _divide_integers(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[(n - 2**24).div(2, rounding_mode="trunc")], n.div(3, rounding_mode="floor")


_INTS = torch.arange(24).mul(1_000_003_333).to(torch.int32).reshape(6, 2, 2).unbind()

NUMBERS = (
    _case("175966_multiples_of_an_index", lambda x: torch.arange(11) * 10**9 + x.long(), (1,)),
    _case("197895_floor", _divide, torch.tensor([1, 0.5, 6, -1] * 5), torch.tensor([0.1] * 20)),
    _case("197895_integers", _divide_integers, (8, 4), torch.arange(8) + 2**24),
    _case("189518_cumsum_of_a_constant", _sum_of_constants, (2, 4, 4)),
    _case(
        "108520_int32", lambda x: (x + x).long(), torch.full((40,), 2**31 - 1, dtype=torch.int32)
    ),
    _case("105264_uint8", lambda x: (x + x).int(), torch.full((40,), 200, dtype=torch.uint8)),
    _case(
        "190764_int32_products",
        lambda x, y, z, p, q, r: ((x @ y + x @ z) + (p @ q + p @ r)).sum(1),
        *_INTS,
    ),
    _case("143566_shift", lambda x, n: (x << n, x >> n), _BYTES - 60, _BYTES % 70),
)

_BINARY = (lambda y, p: y + p, lambda y, p: y * p, lambda y, p: p - y, lambda y, p: y / p)


def _addmm(beta: float, alpha: float, *shape: int) -> Case:
    def product(x: torch.Tensor, w: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return torch.addmm(p[: shape[0], :1] if shape else p[0], x, w, beta=beta, alpha=alpha)

    name = "_".join(map(str, ("121253_addmm", beta, alpha, *shape)))
    return _case(name, lambda x, p: product(x, p[:32], p), (24, 32), p=(33, 48))


def _ignored(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return torch.addmm(x.new_full((48,), float("nan")), x, p, beta=0)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.permute(0, 2, 3, 1) / 8**0.5).softmax(-1) @ v


def _windows(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """A product whose result is read in another order than it is written."""
    return (x @ p).reshape(2, 4, 6, 4, 6, 16).permute(0, 1, 3, 2, 4, 5).relu()


PRODUCTS = (
    *(_addmm(beta, alpha) for beta, alpha in ((0, 1), (1, 0), (2, 0.5), (1, -1))),
    _addmm(2, 0.5, 24),
    _case("196596_addmm_ignores", _ignored, (24, 32), p=(32, 48)),
    _case("135661_other_order", _windows, (1152, 8), p=(8, 16)),
    _case("185405_two_users", lambda x, p: (x @ p, (x @ p) * 0.35), (16, 4, 8), p=(16, 8, 12)),
    _case("149475_residual", lambda x, p: F.linear(x, p) + x, (24, 32), p=(32, 32)),
    _case("134998_twice", lambda x, p: F.linear(F.linear(x, p), p.t()), (24, 32), p=(48, 32)),
    _case("134998_other_use", lambda x, p: F.linear(x, p) @ p.sin(), (24, 32), p=(48, 32)),
    _case("195320_attention", _attention, (2, 4, 6, 8), (2, 6, 4, 8), (2, 4, 6, 8)),
    _case(
        "sum_of_products", lambda x, y, p: x @ p[0] + y @ p[1], (24, 32), (24, 32), p=(2, 32, 48)
    ),
    *(
        _case(
            f"138807_linear_{index}_{'_'.join(map(str, shape))}",
            lambda x, p, f=function, s=shape: f(F.linear(x, p[:40]), p[40 : 40 + s[0], : s[1]] + 3),
            (24, 40),
            p=(80, 40),
        )
        for index, function in enumerate(_BINARY)
        for shape in ((1, 40), (24, 1))
    ),
)

CONVOLUTIONS = (
    *(
        _case(
            f"105048_convolution_{index}_{'_'.join(map(str, shape))}",
            lambda x, p, f=function, s=shape: f(
                F.conv2d(x, p), p.reshape(-1)[: torch.Size(s).numel()].reshape(s) + 3
            ),
            (2, 4, 9, 8),
            p=(8, 4, 3, 3),
        )
        for index, function in enumerate(_BINARY)
        for shape in ((8, 1, 1), (1, 6), (2, 8, 1, 1))
    ),
    _module("105650_normed", lambda: _Normed(nn.Conv2d, False), (2, 4, 9, 8)),
    _module("105650_normed_grouped", lambda: _Normed(nn.Conv2d, False, 2), (2, 4, 9, 8)),
    _module("105650_normed_and_used", lambda: _Normed(nn.Conv2d, True), (2, 4, 9, 8)),
    _module("105650_transposed", lambda: _Normed(nn.ConvTranspose2d, False), (2, 4, 9, 8)),
    _module(
        "105650_transposed_grouped", lambda: _Normed(nn.ConvTranspose2d, False, 2), (2, 4, 9, 8)
    ),
)


def _transforms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, planes = torch.fft.fft(x.transpose(0, 1)), torch.fft.rfftn(x.transpose(0, 2), dim=(0, 1))
    return torch.view_as_real(rows).flatten(-2) + 1, torch.view_as_real(planes) * 2


PERMUTED_WEIGHT = _case(
    "convolution_of_a_permuted_weight",
    lambda x, p: F.conv1d(x, p.permute(0, 2, 1), None, [2]) * p[:, :1, 0] - p[:, 1:2, 0],
    (3, 8, 11),
    p=(7, 2, 8),
)
LAYOUTS = (_case("fourier_transforms", _transforms, (16, 5, 6)), PERMUTED_WEIGHT)

#: Run with several numbers of threads, none of which the code was made for.
THREADS = (
    _case("168965_bmm", lambda x, p: torch.bmm(x, p), (7, 24, 64), p=(7, 64, 48)),
    _case("180739_deep", lambda x, p: (x @ p).relu(), (8, 2048), p=(2048, 24)),
    _case("180739_wide", lambda x, p: F.linear(x, p), (70, 300), p=(500, 300)),
    _case("sums", lambda x: torch.stack([x.sum(), x.amax(), x.std()]), (90, 1111)),
    _case("few_rows", lambda x: x.cos() + x.softmax(1), (3, 70000)),
)

#: What vectors have a part in, then the rest.
VECTORS = {"reductions": REDUCTIONS, "numbers": NUMBERS}
OTHERS = {"writes": WRITES, "products": PRODUCTS, "convolutions": CONVOLUTIONS, "layouts": LAYOUTS}

#: By name.
CASES = {
    case.name: case for cases in (*VECTORS.values(), *OTHERS.values(), THREADS) for case in cases
}
