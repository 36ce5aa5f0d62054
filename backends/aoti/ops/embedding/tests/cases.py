"""Bags of embeddings."""

import functools
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.tests.case import *

_SHIMS = ("_embedding_bag", "_embedding_bag_forward_only")
_MODES = ("sum", "mean", "max")
#: What torch makes of the results for gradients depends on device and mode.
_GRADIENTS = (1, 2, 3)


_near = functools.partial(case, wide=True, ignored=_GRADIENTS)


def _options(
    mode: int = 0, weights: Any = None, last: bool = False, padding: int = -1
) -> tuple[Any, ...]:
    return (False, mode, False, weights, last, padding)


def cases() -> Iterator[Json]:
    table = numbers(20, 3)
    indices = torch.tensor([3, 19, 0, 3, 7, 7, 11, 8, 13, 3])
    offsets = torch.tensor([0, 4, 4, 9])  # the second bag is empty
    lists = {False: (indices, offsets), True: (indices, torch.tensor([0, 4, 4, 10]))}
    none = torch.zeros(0, dtype=torch.int64)
    for shim in _SHIMS:
        for mode, name in enumerate(_MODES):
            rest = _options(mode)
            for dtype in FLOATING:
                x = numbers(20, 3, dtype=dtype)
                yield _near(f"{name}/{short(dtype)}", shim, x, indices, offsets, *rest)
            for number in (torch.int64, torch.int32):
                for last, both in lists.items():
                    for padding in (-1, 3):
                        made = f"{name}/{short(number)}/{last}/{padding}"
                        flags = _options(mode, None, last, padding)
                        yield _near(made, shim, table, *(x.to(number) for x in both), *flags)
            for layout, x in layouts(table):
                yield _near(f"{name}/{layout}", shim, x, indices, offsets, *rest)
            empty = functools.partial(case, ignored=_GRADIENTS)
            yield empty(f"{name}/no_indices", shim, table, none, offsets * 0, *rest)
            yield empty(f"{name}/no_bags", shim, table, none, none, *rest)
        for dtype in FLOATING:
            x, rest = numbers(20, 3, dtype=dtype), _options(0, numbers(10, dtype=dtype, seed=1))
            yield _near(f"weighted/{short(dtype)}", shim, x, indices, offsets, *rest)
        yield _near("mixed", shim, table, indices.int(), offsets, *_options())
        # torch's other modes read lists with gaps as if they had none.
        apart = offsets.repeat_interleave(3)[::3]
        yield _near("gaps", shim, table, indices, apart, *_options(2))
        large = Formula(400, 70, of=(31, 7, 1021, -510, 0.0625), dtype=torch.float32)
        many = Formula(3000, of=(37, 5, 400, 0, 1), dtype=torch.int64)
        begins = Formula(300, of=(10, 0, 100000, 0, 1), dtype=torch.int64)
        yield _near("large", shim, large, many, begins, *_options())
    for mode in (1, 2):  # what torch computes for gradients there, too
        full = torch.tensor([0, 4, 6, 9])
        rest = _options(mode, padding=11)
        yield case(f"gradients/{mode}", "_embedding_bag", table, indices, full, *rest, wide=True)

    for shim in _SHIMS:
        for name, arguments, parts in (
            ("null", (None, indices, offsets), ["weight is a null handle"]),
            ("matrix", (table, indices.view(2, 5), offsets), ["indices int64[2, 5]"]),
            ("reals", (table, indices.float(), offsets), ["indices float32[10]"]),
            ("integers", (table.int(), indices, offsets), ["weight int32[20, 3]"]),
        ):
            yield error(name, shim, *arguments, *_options(), parts=parts)
        bags = table, indices, offsets
        for name, rest, part in (
            ("mode", _options(3), "found mode 3"),
            ("factors", _options(0, numbers(9)), "weights float32[9]"),
            ("factors_of_means", _options(1, numbers(10)), "and mode 1"),
        ):
            yield error(name, shim, *bags, *rest, parts=[part])
        rest = _options(last=True)
        yield error("no_offsets", shim, table, indices, none, *rest, parts=["at least one"])
        for name, i, o, part in (
            ("index", [20], [0], "found index 20, expected 0 to 19"),
            ("negative_index", [1, -1], [0], "found index -1"),
            ("offset", [1, 2], [0, 3], "found offset 3 at 1"),
            ("falling_offset", [1, 2], [0, 2, 1], "found offset 1 at 2"),
        ):
            wrong = torch.tensor(i), torch.tensor(o)
            yield error(name, shim, table, *wrong, *_options(), parts=[part], host=True)
