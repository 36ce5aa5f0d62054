"""Attention."""

import itertools
from collections.abc import Iterator
from typing import TypeAlias

import torch

from pteron.backends.aoti.ops.tests.case import *

_OP = "scaled_dot_product_attention"
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_NONE = float("-inf")
_Operand: TypeAlias = torch.Tensor | Formula


def cases() -> Iterator[Json]:
    for dtype in _DTYPES:
        yield from _of(dtype)
    yield from _layouts()
    yield from _errors()


def _of(dtype: torch.dtype) -> Iterator[Json]:
    name = short(dtype)
    # Heads, those of keys, queries, keys, items: one query, few, many; rows that fill packs of
    # memory and others.
    for i, sizes in enumerate(
        [
            *((2, 2, 1, 1, 16), (4, 1, 1, 37, 64), (6, 2, 1, 300, 8), (2, 2, 3, 5, 40)),
            *((6, 2, 2, 9, 200), (2, 1, 40, 40, 16), (2, 1, 33, 50, 9), (1, 1, 130, 90, 128)),
            *((2, 2, 49, 49, 32), (1, 1, 97, 260, 12), (2, 1, 8, 129, 20)),
        ]
    ):
        heads, shared, queries, keys, items = sizes
        q, k, v = _operands(dtype, *sizes, seed=i)
        of = f"{name}/{'_'.join(map(str, sizes))}"
        yield _case(of, q, k, v)
        yield _case(f"{of}/causal", q, k, v, causal=True)
        added = Formula(queries, keys, of=(31, 7, 61, -30, 0.1), dtype=dtype)
        yield _case(f"{of}/masked", q, k, v, added, scale=0.3)
    q, k, v = _operands(dtype, 4, 2, 3, 7, 16)
    for batch, heads, queries, keys in itertools.product((1, 2), (1, 4), (1, 3), (1, 7)):
        mask = _mask(dtype, batch, heads, queries, keys)
        yield _case(f"{name}/mask_{batch}_{heads}_{queries}_{keys}", q, k, v, mask)
    yield _case(f"{name}/mask_of_keys", q, k, v, _mask(dtype, 1, 7))
    # A cache of which the mask leaves a part: the first keys, some in between, the last, other keys
    # for each query, and none for one of them.
    sizes_of_cache = ((1, 300, 64), (3, 700, 128), (4, 90, 24), (1, 2100, 40), (40, 800, 16))
    for queries, keys, items in sizes_of_cache:
        q, k, v = _operands(dtype, 4, 1, queries, keys, items)
        for first, last in ((0, 41), (70, 77), (keys - 1, keys)):
            left = torch.full((queries, keys), _NONE, dtype=dtype)
            left[:, first:last] = 0
            yield _case(f"{name}/left_{queries}_{keys}_{items}/{first}", q, k, v, left)
        each = torch.full((queries, keys), _NONE, dtype=dtype)
        for query in range(queries - 1 if queries > 1 else 1):
            each[query, query * 20 : query * 20 + 3] = 0
        yield _case(f"{name}/left_{queries}_{keys}_{items}/each", q, k, v, each)
    # More heads than SMs for several blocks each, so that a block has many keys.
    q, k, v = _operands(dtype, 64, 64, 1, 700, 8)
    for first, last in ((0, 41), (290, 650)):
        left = torch.full((1, 700), _NONE, dtype=dtype)
        left[:, first:last] = 0
        yield _case(f"{name}/left_many_heads/{first}", q, k, v, left)
    q, k, v = _operands(dtype, 4, 2, 3, 7, 16)
    nothing = torch.full((3, 7), _NONE, dtype=dtype)
    nothing[0] = 0
    yield _case(f"{name}/nothing_left", q, k, v, nothing)
    yield _case(f"{name}/other_values", q, k, _operands(dtype, 4, 2, 3, 7, 8)[2])
    for queries, keys in ((3, 7), (40, 300)):
        whole = [x.tensor for x in _operands(dtype, 2, 1, queries, keys, 16)]
        for i, operand in enumerate(("query", "key", "value")):
            broken = [x.clone() for x in whole]
            broken[i][0, 0, 1, 2] = float("nan")
            yield _case(f"{name}/{queries}_{keys}/nan_{operand}", *broken)
    q, k, v = _operands(dtype, 4, 2, 3, 0, 16)
    yield _case(f"{name}/no_keys", q, k, v)
    q, k, v = _operands(dtype, 4, 2, 0, 3, 16)
    yield _case(f"{name}/no_queries", q, k, v)
    (q, k, _), (_, _, v) = _operands(dtype, 4, 2, 3, 7, 0), _operands(dtype, 4, 2, 3, 7, 16)
    yield _case(f"{name}/no_items", q, k, v, scale=0.3)
    q, k, v = _operands(dtype, 2, 1, 40, 24, 8)
    mask = _mask(dtype, 40, 24)
    mask[7] = _NONE
    yield _case(f"{name}/many/nothing_left", q, k, v, mask)


def _layouts() -> Iterator[Json]:
    for dtype, queries in itertools.product((torch.float32, torch.bfloat16), (3, 19)):
        q, k, v = (x.tensor for x in _operands(dtype, 2, 2, queries, 5, 8))
        of = f"{short(dtype)}/{queries}"
        for (layout, x), (_, y), (_, z) in zip(layouts(q), layouts(k), layouts(v), strict=True):
            yield _case(f"{of}/{layout}", x, y, z)
            between = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, y, z))
            yield _case(f"{of}/{layout}/heads_inside", *between)
            yield _case(f"{of}/{layout}/mask", q, k, v, x[..., :5].contiguous())
        one = k[:, :1].expand(2, 2, 5, 8)
        yield _case(f"{of}/repeated", q, one, one)
        yield _case(f"{of}/other_values", q, k, v[..., :3])
        keys_left_out = _mask(dtype, 1, 5).expand(2, 2, queries, 5)
        yield _case(f"{of}/mask_of_keys", q, k, v, keys_left_out)


def _errors() -> Iterator[Json]:
    q, k, v = (x.tensor for x in _operands(torch.float32, 4, 2, 3, 5, 8))
    plain = (None, 0.0, False, None)

    def wrong(name: str, *arguments: object, parts: list[str]) -> Json:
        return error(name, _OP, *arguments, parts=parts)

    yield wrong("not_shared", q, k, v, *plain, False, parts=["4 heads", "of keys", "enable_gqa"])
    yield wrong("no_divisor", q[:, :3], k, v, *plain, True, parts=["3 heads", "2 of keys"])
    yield wrong("dtypes", q, k.half(), v, *plain, True, parts=["key float16", "expected one of"])
    yield wrong("double", *(x.double() for x in (q, k, v)), *plain, True, parts=["found query"])
    yield wrong("rank", q[0], k[0], v[0], *plain, True, parts=["found query", "(batch, heads"])
    yield wrong("keys", q, k, v[:, :, :3], *plain, True, parts=["found query", "fitting sizes"])
    yield wrong("items", q, k[..., :7], v, *plain, True, parts=["found query", "fitting sizes"])
    yield wrong("dropout", q, k, v, None, 0.5, False, None, True, parts=["dropout_p 0.5"])
    yield wrong("mask", q, k, v, v[0, 0], 0.0, False, None, True, parts=["found mask", "[2, 4, 3"])
    both = torch.zeros(3, 5)
    yield wrong(
        "causal", q, k, v, both, 0.0, True, None, True, parts=["is_causal 1", "one of them"]
    )
    wide = numbers(1, 1, 1, 257)
    yield wrong(
        "wide", wide, wide, wide, *plain, True, parts=["expected a head dim of at most 256"]
    )


def _operands(
    dtype: torch.dtype, heads: int, shared: int, queries: int, keys: int, items: int, seed: int = 0
) -> tuple[Formula, Formula, Formula]:
    def made(step: int, *sizes: int) -> Formula:
        return Formula(2, *sizes, of=(step, seed, 127, -63, 1 / 32), dtype=dtype)

    return (
        made(7919, heads, queries, items),
        made(6007, shared, keys, items),
        made(5003, shared, keys, items),
    )


def _mask(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """With keys left out, but none of a row's first."""
    mask = numbers(*shape, dtype=dtype, seed=7)
    mask[numbers(*shape, seed=8) > 1] = _NONE
    mask[..., 0] = 0
    return mask


def _case(
    name: str,
    q: _Operand,
    k: _Operand,
    v: _Operand,
    mask: _Operand | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Json:
    arguments = (q, k, v, mask, 0.0, causal, scale, True)
    dtype = (q.tensor if isinstance(q, Formula) else q).dtype
    return case(name, _OP, *arguments, reference=_reference, tolerance=TOLERANCE[dtype])


def _reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """In double, for rows without keys 0; in memory heads and queries lie as those of q."""
    scale = scale if scale is not None else float(q.shape[-1]) ** -0.5
    # Other kernels of the CPU lose NaN.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = torch.nn.functional.scaled_dot_product_attention(
            q.double(),
            k.double(),
            v.double(),
            attn_mask=None if mask is None else mask.double(),
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )
    if k.shape[2] == 0:
        exact.zero_()
    elif mask is not None:
        exact = torch.where(mask.double().amax(-1, keepdim=True) == _NONE, 0.0, exact)
    exact = exact.contiguous()
    if q.stride(1) < q.stride(2):
        exact = exact.transpose(1, 2).contiguous().transpose(1, 2)
    return exact.to(q.dtype)
