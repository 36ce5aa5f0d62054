"""Bags of embeddings."""

from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.conformance.case import *

_SHIMS = ("_embedding_bag", "_embedding_bag_forward_only")
_MODES = ("sum", "mean", "max")
#: What torch makes of the results for gradients depends on device and mode.
_GRADIENTS = (1, 2, 3)


def cases() -> Iterator[Json]:
    table = numbers(20, 3)
    indices = torch.tensor([3, 19, 0, 3, 7, 7, 11, 8, 13, 3])
    offsets = torch.tensor([0, 4, 4, 9])  # the second bag is empty
    plain: tuple[Any, ...] = (False, 0, False, None, False, -1)
    for shim in _SHIMS:
        for mode, name in enumerate(_MODES):
            for dtype in FLOATING:
                x = numbers(20, 3, dtype=dtype)
                rest: tuple[Any, ...] = (False, mode, False, None, False, -1)
                made = f"{name}/{short(dtype)}"
                yield case(made, shim, x, indices, offsets, *rest, wide=True, ignored=_GRADIENTS)
            for number in (torch.int64, torch.int32):
                lists = (indices.to(number), offsets.to(number))
                for last in (False, True):
                    if last:
                        lists = (lists[0], torch.tensor([0, 4, 4, 10]).to(number))
                    for padding in (-1, 3):
                        rest = (False, mode, False, None, last, padding)
                        made = f"{name}/{short(number)}/{last}/{padding}"
                        options: dict[str, Any] = {"wide": True, "ignored": _GRADIENTS}
                        yield case(made, shim, table, *lists, *rest, **options)
            rest = (False, mode, False, None, False, -1)
            for layout, x in layouts(table):
                made = f"{name}/{layout}"
                yield case(made, shim, x, indices, offsets, *rest, wide=True, ignored=_GRADIENTS)
            none = torch.zeros(0, dtype=torch.int64)
            options = {"ignored": _GRADIENTS}
            yield case(f"{name}/no_indices", shim, table, none, offsets * 0, *rest, **options)
            yield case(f"{name}/no_bags", shim, table, none, none, *rest, **options)
        for dtype in FLOATING:
            factors = numbers(10, dtype=dtype, seed=1)
            rest = (False, 0, False, factors, False, -1)
            x = numbers(20, 3, dtype=dtype)
            made = f"weighted/{short(dtype)}"
            yield case(made, shim, x, indices, offsets, *rest, wide=True, ignored=_GRADIENTS)
        mixed = indices.int(), offsets
        yield case("mixed", shim, table, *mixed, *plain, wide=True, ignored=_GRADIENTS)
        # torch's other modes read lists with gaps as if they had none.
        apart = offsets.repeat_interleave(3)[::3]
        rest = (False, 2, False, None, False, -1)
        yield case("gaps", shim, table, indices, apart, *rest, wide=True, ignored=_GRADIENTS)
        large = Formula(400, 70, of=(31, 7, 1021, -510, 0.0625), dtype=torch.float32)
        many = Formula(3000, of=(37, 5, 400, 0, 1), dtype=torch.int64)
        begins = Formula(300, of=(10, 0, 100000, 0, 1), dtype=torch.int64)
        yield case("large", shim, large, many, begins, *plain, wide=True, ignored=_GRADIENTS)
    for mode in (1, 2):  # what torch computes for gradients there, too
        full = torch.tensor([0, 4, 6, 9])
        rest = (False, mode, False, None, False, 11)
        yield case(f"gradients/{mode}", "_embedding_bag", table, indices, full, *rest, wide=True)

    for shim in _SHIMS:
        for name, arguments, parts in (
            ("null", (None, indices, offsets), ["weight is a null handle"]),
            ("matrix", (table, indices.view(2, 5), offsets), ["indices int64[2, 5]"]),
            ("reals", (table, indices.float(), offsets), ["indices float32[10]"]),
            ("integers", (table.int(), indices, offsets), ["weight int32[20, 3]"]),
        ):
            yield error(name, shim, *arguments, *plain, parts=parts)
        bags = table, indices, offsets
        for name, rest, part in (
            ("mode", (False, 3, False, None, False, -1), "found mode 3"),
            ("factors", (False, 0, False, numbers(9), False, -1), "weights float32[9]"),
            ("factors_of_means", (False, 1, False, numbers(10), False, -1), "and mode 1"),
        ):
            yield error(name, shim, *bags, *rest, parts=[part])
        none = torch.zeros(0, dtype=torch.int64)
        rest = (False, 0, False, None, True, -1)
        yield error("no_offsets", shim, table, indices, none, *rest, parts=["at least one"])
        for name, i, o, part in (
            ("index", [20], [0], "found index 20, expected 0 to 19"),
            ("negative_index", [1, -1], [0], "found index -1"),
            ("offset", [1, 2], [0, 3], "found offset 3 at 1"),
            ("falling_offset", [1, 2], [0, 2, 1], "found offset 1 at 2"),
        ):
            lists = torch.tensor(i), torch.tensor(o)
            yield error(name, shim, table, *lists, *plain, parts=[part], host=True)
