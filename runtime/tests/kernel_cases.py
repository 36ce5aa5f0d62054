"""What every portable kernel is tried with: arguments in schema order, without outputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

Case = tuple[Any, ...]

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ALL = (*FLOATS, *INTS, torch.bool)


def values(dtype: torch.dtype, *sizes: int, seed: int = 0, positive: bool = False) -> torch.Tensor:
    """Reproducible elements of `dtype`, small enough to be exact in half precision for integers."""
    generator = torch.Generator().manual_seed(seed * 7919 + sum(sizes))
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) > 0.5
    if dtype.is_floating_point:
        x = torch.randn(sizes, generator=generator, dtype=torch.float64)
        return (x.abs() + 0.1 if positive else x).to(dtype)
    low = 1 if positive or dtype == torch.uint8 else -20
    return torch.randint(low, 20, sizes, generator=generator).to(dtype)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same elements in another dim order."""
    return x.to(memory_format=torch.channels_last)


def _unary(dtypes: tuple[torch.dtype, ...] = ALL, positive: bool = False) -> Iterator[Case]:
    for dtype in dtypes:
        yield (values(dtype, 3, 700, positive=positive),)
    yield (channels_last(values(torch.float32, 2, 3, 4, 5, positive=positive)),)
    yield (values(torch.float32, positive=positive),)
    yield (values(torch.float32, 0, 4),)
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -2.5, 3.5])
    yield (special,)


def _pairs(
    first: tuple[torch.dtype, ...] = ALL, positive: bool = False
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Dtypes, then shapes, then layouts."""
    for a, b in itertools.product(first, repeat=2):
        yield values(a, 4, 5, seed=1), values(b, 4, 5, seed=2, positive=positive)
        yield values(a, 4, 5, seed=1), values(b, seed=2, positive=positive)
    f = torch.float32 if torch.float32 in first else torch.int64
    shapes = [((3, 1), (1, 300)), ((2, 3, 4), (4,)), ((1,), (5, 1)), ((), (2, 2)), ((0, 3), (1, 3))]
    for a_sizes, b_sizes in shapes:
        yield values(f, *a_sizes, seed=3), values(f, *b_sizes, seed=4, positive=positive)
    image = values(f, 2, 3, 4, 5, seed=5)
    other = values(f, 2, 3, 4, 5, seed=6, positive=positive)
    yield channels_last(image), other
    yield channels_last(image), values(f, 3, 1, 1, seed=7, positive=positive)


def _scalars(first: tuple[torch.dtype, ...] = ALL, numbers: Case = (2, 0.75)) -> Iterator[Case]:
    for dtype, number in itertools.product(first, numbers):
        yield values(dtype, 4, 5, seed=1), number


def _with(cases: Iterator[Case], *more: Any) -> list[Case]:
    return [(*case, *more) for case in cases]


def _reversed(cases: Iterator[Case]) -> list[Case]:
    return [tuple(reversed(case)) for case in cases]


X = values(torch.float32, 4, 6, seed=11)
IMAGE = values(torch.float32, 2, 3, 4, 5, seed=12)
LONG = values(torch.int64, 4, 6, seed=13)
INT_NO_BOOL = (*FLOATS, *INTS)


def _reduced(dtypes: tuple[torch.dtype, ...], *tail: Any, none: bool = True) -> list[Case]:
    """Over dims [1], [0, -1], all, with and without keepdim."""
    cases: list[Case] = []
    for dtype in dtypes:
        cases.append((values(dtype, 4, 300, seed=14), [1], False, *tail))
    for dims, keepdim in itertools.product(([0, -1], [2]), (False, True)):
        cases.append((channels_last(IMAGE), dims, keepdim, *tail))
    if none:
        cases.append((IMAGE, None, False, *tail))
    return cases


def _reduced_dim(dtypes: tuple[torch.dtype, ...], *tail: Any) -> list[Case]:
    cases: list[Case] = [(values(d, 4, 300, seed=15), 1, False, *tail) for d in dtypes]
    cases += [(channels_last(IMAGE), dim, True, *tail) for dim in (0, -1)]
    return cases


def _whole(dtypes: tuple[torch.dtype, ...], *tail: Any) -> list[Case]:
    return [(values(d, 3, 7, seed=16), *tail) for d in dtypes] + [(channels_last(IMAGE), *tail)]


_NAN_ROW = torch.tensor([[1.0, float("nan"), 3.0], [2.0, 2.0, -1.0]])
_INDEX = torch.tensor([[0, 3, 1], [2, 2, 0]])
_MASK = torch.tensor([True, False, True, True])

_BINARY: dict[str, list[Case]] = {
    "aten::mul.out": list(_pairs()),
    "aten::mul.Scalar_out": list(_scalars()),
    "aten::add.out": _with(_pairs(), 1) + _with(_pairs((*FLOATS[:2], *INTS)), 3) + [(X, X, 0.5)],
    "aten::add.Scalar_out": _with(_scalars(INT_NO_BOOL), 2),
    "aten::sub.out": _with(_pairs(INT_NO_BOOL), 1) + [(X, X, 0.5)],
    "aten::sub.Scalar_out": _with(_scalars(INT_NO_BOOL), 2),
    "aten::rsub.Tensor_out": _with(_pairs(INT_NO_BOOL), 1),
    "aten::rsub.Scalar_out": _with(_scalars(INT_NO_BOOL), 2),
    "aten::div.out": list(_pairs(positive=True)),
    "aten::div.Scalar_out": list(_scalars()),
    "aten::div.out_mode": [
        (a, b, mode)
        for a, b in _pairs((*FLOATS[:2], *INTS), positive=True)
        for mode in (None, "floor", "trunc")
    ],
    "aten::div.Scalar_mode_out": [
        (*case, mode) for case in _scalars(INT_NO_BOOL) for mode in (None, "floor", "trunc")
    ],
    "aten::floor_divide.out": list(_pairs(INT_NO_BOOL, positive=True)),
    "aten::floor_divide.Scalar_out": list(_scalars(INT_NO_BOOL, (3, -3, 0.75))),
    "aten::remainder.Tensor_out": list(_pairs(INT_NO_BOOL, positive=True)),
    "aten::remainder.Scalar_out": list(_scalars(INT_NO_BOOL, (3, -3, 0.75))),
    "aten::remainder.Scalar_Tensor_out": _reversed(
        (values(d, 9, seed=2, positive=True), 7) for d in INT_NO_BOOL
    ),
    "aten::fmod.Tensor_out": list(_pairs(INT_NO_BOOL, positive=True)),
    "aten::fmod.Scalar_out": list(_scalars(INT_NO_BOOL, (3, -3, 0.75))),
    "aten::pow.Tensor_Tensor_out": [
        (values(d, 5, 6, positive=True) / 4, values(d, 5, 6, seed=3)) for d in FLOATS[:2]
    ]
    + [(LONG, LONG.abs() % 5)],
    "aten::pow.Tensor_Scalar_out": [
        (values(d, 5, 6, positive=True), p) for d in FLOATS for p in (2, 0.5, -1.5, 3)
    ]
    + [(LONG, 3), (LONG, 0)],
    "aten::pow.Scalar_out": [(2, values(torch.float32, 9)), (1.5, LONG % 7), (3, LONG % 7)],
    "aten::atan2.out": list(_pairs(FLOATS)),
    "aten::maximum.out": [*_pairs(), (_NAN_ROW, _NAN_ROW.flip(1))],
    "aten::minimum.out": [*_pairs(), (_NAN_ROW, _NAN_ROW.flip(1))],
    "aten::max.out": list(_pairs(FLOATS[:2])),
    "aten::min.out": list(_pairs(FLOATS[:2])),
    "aten::bitwise_left_shift.Tensor_out": [
        (values(d, 9, seed=1), values(d, 9, seed=2).abs() % 5) for d in INTS
    ],
    "aten::bitwise_left_shift.Tensor_Scalar_out": [(values(d, 9, seed=1), 2) for d in INTS],
    "aten::bitwise_right_shift.Tensor_out": [
        (values(d, 9, seed=1), values(d, 9, seed=2).abs() % 5) for d in INTS
    ],
    "aten::bitwise_right_shift.Tensor_Scalar_out": [(values(d, 9, seed=1), 2) for d in INTS],
}
for _name in ("and", "or", "xor"):
    _BINARY[f"aten::bitwise_{_name}.Tensor_out"] = list(_pairs((*INTS, torch.bool)))
    _BINARY[f"aten::bitwise_{_name}.Scalar_out"] = list(_scalars(INTS, (6,)))
    _BINARY[f"aten::logical_{_name}.out"] = list(_pairs())
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _BINARY[f"aten::{_name}.Tensor_out"] = [*_pairs(), (_NAN_ROW, _NAN_ROW)]
    _BINARY[f"aten::{_name}.Scalar_out"] = [
        *_scalars(numbers=(2, 0.75)),
        (torch.tensor([0.1, 0.2, 0.3], dtype=torch.float16), 0.1),
        (torch.tensor([0.1, 0.2, 0.3], dtype=torch.bfloat16), 0.1),
    ]

_UNARY: dict[str, list[Case]] = {
    f"aten::{name}.out": list(_unary())
    for name in (
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp expm1 log log2 log10 "
        "log1p sqrt rsqrt reciprocal erf sigmoid logical_not isnan isinf"
    ).split()
}
_UNARY |= {
    f"aten::{name}.out": list(_unary(INT_NO_BOOL))
    for name in "abs neg sign relu floor ceil round trunc square".split()
}
_UNARY |= {
    "aten::bitwise_not.out": list((values(d, 30),) for d in (*INTS, torch.bool)),
    "aten::silu.out": list(_unary(FLOATS)),
    # Not of infinity, which torch makes NaN of.
    "aten::gelu.out": [(values(d, 3, 700), a) for d in FLOATS for a in ("none", "tanh")],
    "aten::hardsigmoid.out": [(6 * values(d, 50),) for d in FLOATS],
    "aten::hardswish.out": [(6 * values(d, 50),) for d in FLOATS],
    "aten::hardtanh.out": _with(_unary(FLOATS), -0.5, 0.25) + [(LONG, -3, 4)],
    "aten::leaky_relu.out": _with(_unary(FLOATS), 0.125),
    "aten::elu.out": _with(_unary(FLOATS), 1.5, 1, 1),
    "aten::softplus.out": _with(_unary(FLOATS), 2, 3),
    "aten::clamp.out": [
        (x, low, high)
        for (x,) in _unary(INT_NO_BOOL)
        for low, high in ((-1, 2), (None, 1), (0, None), (3, 2))
    ]
    + [(LONG, -0.5, 2.5)],
    "aten::clamp.Tensor_out": [
        (X, X - 0.5, X + torch.linspace(-1, 1, 6)),
        (X, None, torch.tensor(0.5)),
        (X, torch.zeros(6), None),
    ],
}

_CHOICES: dict[str, list[Case]] = {
    "aten::where.self_out": [
        (values(torch.bool, 4, 5), a, b) for a, b in _pairs() if a.dim() == 2 and a.size(0) == 4
    ]
    + [(values(torch.bool, 6), X, X.new_zeros(()))],
    "aten::masked_fill.Scalar_out": [
        (values(d, 4, 6), values(torch.bool, 4, 6), 1) for d in INT_NO_BOOL
    ]
    + [(X, values(torch.bool, 6), -float("inf"))],
    "aten::masked_fill.Tensor_out": [(X, values(torch.bool, 4, 6), torch.tensor(2.5))],
}

_COPIES: dict[str, list[Case]] = {
    "aten::copy.out": [(values(a, 4, 5), values(b, 4, 5, seed=2), False) for a in ALL for b in ALL]
    + [(X, torch.arange(6.0), False), (channels_last(IMAGE), IMAGE, False)],
    "aten::clone.out": [(values(d, 3, 4), None) for d in ALL] + [(channels_last(IMAGE), None)],
    "aten::alias_copy.out": [(X,)],
    "aten::detach_copy.out": [(X,)],
    "aten::lift_fresh_copy.out": [(X,)],
    "aten::view_copy.out": [
        (X, [24]),
        (X, [2, -1, 3]),
        (channels_last(IMAGE), [6, 20]),
        (values(torch.int8, 8), [2, 2, 2]),
        (X.new_zeros(0, 3), [3, 0]),
        (torch.tensor(3.0), [1, 1]),
    ],
    "aten::_unsafe_view.out": [(X, [3, 8])],
    "aten::_reshape_alias_copy.out": [(X, [3, 8], [8, 1])],
    "aten::permute_copy.out": [(IMAGE, [3, 0, 2, 1]), (channels_last(IMAGE), [0, -1, 1, 2])],
    "aten::transpose_copy.int_out": [(X, 0, 1), (IMAGE, -1, 1), (values(torch.bool, 3, 4), 0, 1)],
    "aten::t_copy.out": [(X,), (torch.arange(3.0),)],
    "aten::expand_copy.out": [
        (X.view(4, 1, 6), [2, 4, 3, -1], False),
        (torch.tensor(2), [3], False),
        (torch.ones(1, 3), [0, 3], False),
    ],
    "aten::unsqueeze_copy.out": [(X, 0), (X, -1), (X, 1), (torch.tensor(1.0), 0)],
    "aten::squeeze_copy.out": [(X.view(1, 4, 1, 6),), (X,)],
    "aten::squeeze_copy.dim_out": [(X.view(1, 4, 1, 6), 2), (X, 1)],
    "aten::squeeze_copy.dims_out": [(X.view(1, 4, 1, 6), [0, -2]), (X.view(1, 4, 6), [0, 1])],
}

_PARTS: dict[str, list[Case]] = {
    "aten::slice_copy.Tensor_out": [
        (X, 1, 1, 5, 2),
        (X, 0, None, None, 1),
        (X, -1, -3, None, 1),
        (X, 1, 4, 2, 1),
        (X, 0, -100, 100, 3),
        (channels_last(IMAGE), 2, 1, 3, 1),
    ],
    "aten::slice_scatter.out": [
        (X, torch.zeros(4, 2), 1, 1, 5, 2),
        (X, torch.ones(1, 6), 0, 1, 2, 1),
    ],
    "aten::narrow_copy.out": [(X, 1, 2, 3), (X, 0, 1, 2)],
    "aten::select_copy.int_out": [(X, 0, 2), (X, 1, -1), (channels_last(IMAGE), 1, 2)],
    "aten::select_scatter.out": [(X, torch.zeros(6), 0, 2), (X, torch.zeros(4), 1, -1)],
    "aten::split_with_sizes_copy.out": [(X, [1, 3, 2], 1), (X, [0, 4], 0)],
    "aten::split_copy.Tensor_out": [(X, 4, 1), (X, 2, 0)],
    "aten::unbind_copy.int_out": [(X, 0), (IMAGE, -2)],
    "aten::cat.out": [
        ([X, 2 * X], 0),
        ([X, X[:, :2].contiguous(), X], -1),
        ([torch.zeros(0), X], 0),
        ([LONG, LONG.to(torch.int32), X], 1),
        ([channels_last(IMAGE), IMAGE], 1),
    ],
    "aten::stack.out": [([X, 2 * X], 0), ([X, X, X], -1), ([torch.tensor(1), torch.tensor(2)], 0)],
    "aten::repeat.out": [(X, [2, 3]), (X, [3, 1, 2]), (torch.tensor(1.0), [4]), (X, [0, 1])],
    "aten::flip.out": [(X, [0]), (X, [0, -1]), (IMAGE, [2])],
    "aten::constant_pad_nd.out": [
        (X, [1, 2], 0.5),
        (X, [0, 1, -1, 2], 0),
        (IMAGE, [1, 1, 1, 1], 1),
    ],
}

_FILLS: dict[str, list[Case]] = {
    "aten::full.out": [([2, 3], 1.5), ([], 7), ([0], True)],
    "aten::full_like.out": [(values(d, 2, 3), 3, None) for d in ALL],
    "aten::new_full.out": [(X, [2], 2.5)],
    "aten::zeros.out": [([2, 3],)],
    "aten::zeros_like.out": [(X, None), (LONG, None)],
    "aten::new_zeros.out": [(LONG, [3])],
    "aten::ones.out": [([2, 3],)],
    "aten::ones_like.out": [(X, None), (LONG, None)],
    "aten::fill.Scalar_out": [(values(d, 2, 3), 3) for d in ALL],
    "aten::fill.Tensor_out": [(X, torch.tensor(2.5)), (LONG, torch.tensor(4))],
    "aten::scalar_tensor.out": [(2.5,), (3,)],
    "aten::arange.out": [(7,), (3.5,)],
    "aten::arange.start_out": [(1, 9, 3), (9, 1, -2), (0.5, 2.0, 0.25), (2, 2, 1)],
}

_REDUCTIONS: dict[str, list[Case]] = {
    "aten::sum.out": _whole(ALL, None),
    "aten::sum.IntList_out": _reduced(ALL, None) + [(X, [], True, None)],
    "aten::mean.dtype_out": _whole(FLOATS, None),
    "aten::mean.out": _reduced(FLOATS, None),
    "aten::prod.out": [(values(d, 3, 2), None) for d in ALL],
    "aten::prod.int_out": [(values(d, 3, 4), 1, False, None) for d in ALL],
    "aten::amax.out": [*_reduced(ALL, none=False), (X, [], False), (_NAN_ROW, [1], False)],
    "aten::amin.out": [*_reduced(ALL, none=False), (X, [], False), (_NAN_ROW, [1], False)],
    "aten::max.unary_out": [*_whole(ALL), (_NAN_ROW,)],
    "aten::min.unary_out": [*_whole(ALL), (_NAN_ROW,)],
    "aten::max.dim_max": [*_reduced_dim(FLOATS), (_NAN_ROW, 1, False), (LONG, 0, True)],
    "aten::min.dim_min": [*_reduced_dim(FLOATS), (_NAN_ROW, 1, False), (LONG, 0, True)],
    "aten::argmax.out": [
        *_reduced_dim(FLOATS),
        (_NAN_ROW, 1, True),
        (channels_last(IMAGE), None, False),
        (X, None, True),
    ],
    "aten::argmin.out": [*_reduced_dim(FLOATS), (_NAN_ROW, 1, True), (X, None, False)],
    "aten::any.all_out": [*_whole(ALL), (torch.zeros(3),)],
    "aten::any.out": [(values(torch.bool, 3, 4) & values(torch.bool, 3, 4, seed=3), 1, True)],
    "aten::any.dims_out": [(values(torch.bool, 2, 3, 4), [0, 2], False), (X, None, False)],
    "aten::all.all_out": [*_whole(ALL), (torch.ones(3),)],
    "aten::all.out": [(values(torch.bool, 3, 4) | values(torch.bool, 3, 4, seed=3), 1, False)],
    "aten::all.dims_out": [(values(torch.bool, 2, 3, 4), [0, 2], False), (X, None, False)],
    "aten::var.out": [(X, [1], True, False), (IMAGE, [0, 2], False, True)],
    "aten::var.correction_out": [(X, [1], 0, False), (X, None, 1, False), (IMAGE, [1], None, True)],
    "aten::cumsum.out": [(values(d, 4, 5), 1, None) for d in ALL] + [(IMAGE, -2, None)],
    "aten::_softmax.out": [(values(d, 5, 300), 1, False) for d in FLOATS]
    + [
        (channels_last(IMAGE), 1, False),
        (torch.tensor([[1.0, -float("inf")], [0.0, 1e4]]), 1, False),
    ],
    "aten::_log_softmax.out": [(values(d, 5, 300), 1, False) for d in FLOATS] + [(IMAGE, 0, False)],
}

_ORDER: dict[str, list[Case]] = {
    "aten::sort.values": [(X, 1, False), (X, 0, True), (torch.tensor(1.0), 0, False)],
    "aten::sort.values_stable": [
        (values(d, 4, 50), True, -1, descending) for d in ALL for descending in (False, True)
    ]
    + [(_NAN_ROW, True, 1, True), (channels_last(IMAGE), True, 1, False)],
    "aten::topk.values": [
        (X, 3, 1, True, True),
        (X, 2, 0, False, True),
        (X, 0, 1, True, True),
        (channels_last(IMAGE), 2, -1, True, True),
    ],
}

_INDEXING: dict[str, list[Case]] = {
    "aten::index.Tensor_out": [
        (X, [_INDEX]),
        (X, [None, torch.tensor([0, -1, 5], dtype=torch.int32)]),
        (X, [torch.tensor([0, 3]), torch.tensor([[1], [2]])]),
        (IMAGE, [torch.tensor([1, 0]), None, torch.tensor([2, 3])]),
        (IMAGE, [None, torch.tensor([2, 0]), torch.tensor([3, 1])]),
        (X, [_MASK]),
        (X, [X > 0]),
        (LONG, [torch.zeros(0, dtype=torch.int64)]),
        (X, [_MASK, torch.tensor(2)]),
    ],
    "aten::index_put.out": [
        (X, [torch.tensor([0, 2])], torch.zeros(2, 6), False),
        (X, [torch.tensor([1, 1, 0])], torch.ones(3, 6), True),
        (X, [None, torch.tensor([5, -6])], torch.tensor(2.0), False),
        (X, [_MASK], torch.ones(6), False),
        (LONG, [torch.tensor([0, 0]), torch.tensor([1, 1])], torch.tensor([3, 4]), True),
    ],
    "aten::index_select.out": [
        (X, 0, torch.tensor([3, 0, 3])),
        (channels_last(IMAGE), 2, torch.tensor([1], dtype=torch.int32)),
        (X, 1, torch.tensor(2)),
    ],
    "aten::embedding.out": [
        (X, _INDEX, -1, False, False),
        (X, torch.tensor(3), -1, False, False),
        (values(torch.bfloat16, 9, 4), _INDEX.to(torch.int32), -1, False, False),
    ],
    "aten::gather.out": [
        (X, 1, torch.tensor([[0, 5], [1, 1]]), False),
        (X, 0, torch.tensor([[3, 0, 1, 2, 2, 0]]), False),
        (torch.tensor(2.0), 0, torch.tensor(0), False),
    ],
    "aten::scatter.src_out": [(X, 1, torch.tensor([[5, 0]]), torch.ones(4, 6))],
    "aten::scatter.value_out": [(X, 0, torch.tensor([[3, 1]]), 2.5), (LONG, 1, _INDEX, 9)],
    "aten::scatter_add.out": [(X, 0, torch.zeros(3, 6, dtype=torch.int64), torch.ones(3, 6))],
    "aten::scatter_reduce.two_out": [
        (X, 1, torch.zeros(4, 6, dtype=torch.int64), X.flip(0), reduce, True)
        for reduce in ("sum", "prod", "amax", "amin")
    ],
    "aten::nonzero.out": [(values(torch.bool, 3, 4),), (X * (X > 0),), (torch.zeros(2),)],
}

_PRODUCTS: dict[str, list[Case]] = {
    "aten::mm.out": [(values(d, 3, 40), values(d, 40, 300, seed=2)) for d in INT_NO_BOOL],
    "aten::addmm.out": [
        (torch.arange(5.0), values(torch.float32, 3, 4), values(torch.float32, 4, 5), 1, 1),
        (torch.ones(3, 5), values(torch.float32, 3, 4), values(torch.float32, 4, 5), 0.5, 2),
        (LONG[:3, :5].contiguous(), LONG[:3, :4].contiguous(), values(torch.int64, 4, 5), 2, 3),
    ],
    "aten::bmm.out": [
        (values(d, 2, 3, 4), values(d, 2, 4, 5, seed=2)) for d in (*FLOATS, torch.int64)
    ],
    "aten::baddbmm.out": [
        (torch.ones(5), values(torch.float32, 2, 3, 4), values(torch.float32, 2, 4, 5), 0.5, 2)
    ],
}

# Kernels that are functions of torch with the same arguments.
CASES: dict[str, list[Case]] = {
    **_BINARY,
    **_UNARY,
    **_CHOICES,
    **_COPIES,
    **_PARTS,
    **_FILLS,
    **_REDUCTIONS,
    **_ORDER,
    **_INDEXING,
    **_PRODUCTS,
}

# Numbers in, a number out, with what Python makes of them.
SCALAR_CASES: dict[str, list[tuple[Case, Any]]] = {
    "executorch_prim::add.Scalar": [((2, 3), 5), ((2, 0.5), 2.5)],
    "executorch_prim::sub.Scalar": [((2, 3), -1), ((2.5, 1), 1.5)],
    "executorch_prim::mul.Scalar": [((4, 3), 12), ((4, 0.5), 2.0)],
    "executorch_prim::floordiv.Scalar": [
        ((7, 2), 3),
        ((-7, 2), -4),
        ((7, -2), -4),
        ((7.5, 2), 3.0),
    ],
    "executorch_prim::mod.Scalar": [((7, 3), 1), ((-7, 3), 2), ((7, -3), -2), ((7.5, 2), 1.5)],
    "executorch_prim::truediv.Scalar": [((7, 2), 3.5)],
    "executorch_prim::sym_max.Scalar": [((7, 2), 7), ((1.5, 2), 2.0)],
    "executorch_prim::sym_min.Scalar": [((7, 2), 2)],
    "executorch_prim::neg.Scalar": [((7,), -7), ((0.5,), -0.5)],
    "executorch_prim::sym_float.Scalar": [((7,), 7.0)],
    "executorch_prim::sym_not.Scalar": [((True,), False)],
    "executorch_prim::ceil.Scalar": [((1.2,), 2), ((3,), 3)],
    "executorch_prim::floor.Scalar": [((-1.2,), -2)],
    "executorch_prim::round.Scalar": [((2.5,), 2), ((3.5,), 4)],
    "executorch_prim::trunc.Scalar": [((-1.7,), -1)],
    "executorch_prim::eq.Scalar": [((2, 2), True), ((2, 2.5), False)],
    "executorch_prim::ne.Scalar": [((2, 2), False)],
    "executorch_prim::lt.Scalar": [((1, 2), True), ((2, 2), False)],
    "executorch_prim::le.Scalar": [((2, 2), True)],
    "executorch_prim::gt.Scalar": [((3, 2), True), ((2, 2.5), False)],
    "executorch_prim::ge.Scalar": [((2, 2), True)],
    "aten::sym_size.int": [((X, 1), 6), ((X, -2), 4)],
    "aten::sym_numel": [((X,), 24)],
    "aten::_local_scalar_dense": [
        ((torch.tensor(2.5),), 2.5),
        ((torch.tensor([7], dtype=torch.int8),), 7),
        ((torch.tensor(True),), True),
    ],
}
