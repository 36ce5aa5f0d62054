"""Choosing by a mask, and repeating."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    mask = numbers(4, 5, dtype=torch.bool, seed=1)
    for name, x in variants((*REAL, torch.bool, torch.complex64, torch.complex128), 4, 5):
        yield case(name, "masked_select", x, mask)
        source = numbers(25, dtype=x.dtype, seed=2)
        yield case(name, "masked_scatter", x, mask, source, row_major=True)
    for name, shape in {"row": (5,), "column": (4, 1), "more": (2, 4, 5), "none": ()}.items():
        for layout, mask in layouts(numbers(*shape, dtype=torch.bool, seed=1)):
            x, source = numbers(4, 5), numbers(10, 5, seed=2).t()
            yield case(f"{name}/{layout}", "masked_select", x, mask)
            wide = x.expand(2, 4, 5) if name == "more" else x
            yield case(f"{name}/{layout}", "masked_scatter", wide, mask, source, row_major=True)
    for name, x, mask in (
        ("empty", torch.zeros(0, 3), torch.zeros(0, 3).bool()),
        ("nothing", numbers(3), torch.zeros(3).bool()),
        ("no_dimensions", torch.tensor(2.0), torch.tensor(True)),
    ):
        yield case(name, "masked_select", x, mask)
        yield case(name, "masked_scatter", x, mask, numbers(1))
    large = Formula(300, 200, of=(31, 7, 127, -63, 1), dtype=torch.float32)
    flags = Formula(300, 200, of=(7, 0, 2, 0, 1), dtype=torch.bool)
    yield case("large", "masked_select", large, flags)
    values = Formula(60000, of=(11, 7, 1009, 0, 1), dtype=torch.float32)
    yield case("large", "masked_scatter", large, flags, values)

    x, mask, source = numbers(2, 3), torch.ones(2, 3).bool(), numbers(6)
    for shim, rest in (("masked_select", ()), ("masked_scatter", (source,))):
        yield error("null", shim, None, mask, *rest, parts=["self is a null handle"])
        yield error("mask", shim, x, mask.byte(), *rest, parts=["found mask uint8[2, 3]"])
        parts = ["found mask bool[2]", "[2, 3]"]
        yield error("shapes", shim, x, mask[:, 0].contiguous(), *rest, parts=parts)
    parts = ["found source float64[6], self float32[2, 3]"]
    yield error("dtype", "masked_scatter", x, mask, source.double(), parts=parts)
    parts = ["found a mask of 6 elements that hold and source float32[5]"]
    short_source = source[:5].clone()
    yield error("source", "masked_scatter", x, mask, short_source, parts=parts, host=True)

    repeats = torch.tensor([2, 0, 3, 1])
    for dtype in (torch.int64, torch.int32):
        for layout, counts in layouts(repeats.to(dtype).repeat(2, 1)):
            for size in (None, 6):
                name = f"{short(dtype)}/{layout}" + ("/size" if size else "")
                yield case(name, "repeat_interleave_Tensor", counts[1], size)
    for name, counts in {"nothing": torch.zeros(0).long(), "zeros": torch.zeros(3).long()}.items():
        yield case(name, "repeat_interleave_Tensor", counts, None)
    many = Formula(5000, of=(7, 0, 23, 0, 1), dtype=torch.int64)
    yield case("large", "repeat_interleave_Tensor", many, None)
    yield error("dims", "repeat_interleave_Tensor", repeats[None], None, parts=["int64[1, 4]"])
    parts = ["found repeats float32[4]"]
    yield error("reals", "repeat_interleave_Tensor", repeats.float(), None, parts=parts)
    parts = ["found repeat -1, expected 0 or more"]
    counts = torch.tensor([1, -1, 5])
    yield error("negative", "repeat_interleave_Tensor", counts, None, parts=parts, host=True)
    parts = ["sum to 6, expected the output size 5"]
    yield error("size", "repeat_interleave_Tensor", repeats, 5, parts=parts, host=True)
