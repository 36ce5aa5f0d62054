"""Reading and writing where indices and masks say, and looking for what is not zero."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_I = torch.tensor([0, -1, 1])
_J = torch.tensor([[1], [-1]])
_MASK = numbers(3, 4, dtype=torch.bool)
#: Of a tensor of (3, 4, 5); none names an element twice.
INDICES: dict[str, list[torch.Tensor | None]] = {
    "first": [_I],
    "second": [None, _I],
    "last": [None, None, _I],
    "neighbours": [_J, _I],
    "apart": [_I, None, _I],
    "int32": [None, _I.int(), _I],
    "single": [torch.tensor(1), torch.tensor(-2), torch.tensor(3)],
    "mask": [_MASK],
    "swapped_mask": [numbers(4, 3, dtype=torch.bool).t()],
    "bytes": [None, _MASK[0].byte()],
    "mask_and_numbers": [torch.tensor([True, False, True]), None, _I[:1]],
    "whole_mask": [numbers(3, 4, 5, dtype=torch.bool)],
    "no_mask": [torch.zeros(3, dtype=torch.bool)],
    "nothing": [torch.zeros(0, dtype=torch.int64)],
}


def cases() -> Iterator[Json]:
    for name, indices in INDICES.items():
        for layout, x in layouts(numbers(3, 4, 5)):
            yield case(f"{layout}/{name}", "index_Tensor", x, indices)
        x = numbers(3, 4, 5)
        values = numbers(*torch.ops.aten.index.Tensor(x, indices).shape, seed=1)
        for accumulate in (False, True):
            what = "add" if accumulate else "write"
            yield case(f"{what}/{name}", "index_put", x, indices, values, accumulate)
    for dtype in (torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex128):
        x = numbers(3, 4, 5, dtype=dtype)
        yield case(short(dtype), "index_Tensor", x, [_J, None, _I])
        yield case(short(dtype), "index_put", x, [_J, None, _I], numbers(dtype=dtype), False)
    large = Formula(1000, 70, of=(7919, 1, 100003, -50000, 1), dtype=torch.float32)
    many = Formula(900, of=(17, 3, 2000, -1000, 1), dtype=torch.int64)
    yield case("large", "index_Tensor", large, [many])
    yield case("from_nothing", "index_Tensor", torch.zeros(0, 5), [torch.zeros(0, 2).long()])

    for layout, x in layouts(numbers(3, 4, 5)):
        yield case(f"{layout}/write", "index_put", x, [None, _I], numbers(3, 1), False)
    _, _, gaps, _ = layouts(numbers(3, 3, 5, seed=1))
    yield case("values_with_gaps", "index_put", numbers(3, 4, 5), [None, _I], gaps[1], False)
    for dtype in (*FLOATING, torch.int64, torch.int32, torch.int16, torch.bool):
        x, values = numbers(3, 4, dtype=dtype), numbers(4, 4, dtype=dtype, seed=1)
        rows = torch.tensor([1, -2, 1, 2])
        yield case(f"{short(dtype)}/repeats", "index_put", x, [rows], values, True)
    often = Formula(5000, of=(1, 0, 3, 0, 1), dtype=torch.int64)
    for dtype in (torch.float32, torch.float64, torch.int16, torch.int64):
        one = torch.tensor(1, dtype=dtype)
        yield case(
            f"{short(dtype)}/often", "index_put", numbers(3, dtype=dtype), [often], one, True
        )

    x, one = numbers(2, 3), numbers(1)
    for shim, rest in (("index_Tensor", ()), ("index_put", (one, False))):
        yield error("null", shim, None, [_I], *rest, parts=["self is a null handle"])
        yield error("no_index", shim, x, [None], *rest, parts=["float32[2, 3]", "an index for"])
        yield error("too_many", shim, x, [_J, _J, _J], *rest, parts=["more", "float32[2, 3]"])
        yield error("reals", shim, x, [one], *rest, parts=["found index float32[1]"])
        mask = torch.ones(3, dtype=torch.bool)
        parts = ["found mask bool[3] at dimension 0 of float32[2, 3]"]
        yield error("mask", shim, x, [mask], *rest, parts=parts)
        parts = ["found index int64[2]", "[3]"]
        yield error("shapes", shim, x, [_I * 0, _I[:2]], *rest, parts=parts)
        empty = torch.zeros(0, 3)
        yield error("no_elements", shim, empty, [_I[:1]], *rest, parts=["float32[0, 3]"])
        for bad in (2, -3):
            parts = [f"found index {bad}, expected -2 to 1 for dimension 0 of float32[2, 3]"]
            index = torch.tensor([0, bad])
            yield error(f"outside{bad}", shim, x, [index], *rest, parts=parts, host=True)
    parts = ["found values float64[1], self float32[2, 3], expected one dtype"]
    yield error("dtype", "index_put", x, [_J], one.double(), False, parts=parts)
    parts = ["found values float32[2, 3], expected sizes that broadcast to [3, 3]"]
    yield error("values", "index_put", x, [_I * 0], x, False, parts=parts)
    z = numbers(2, dtype=torch.complex64)
    yield error("complex", "index_put", z, [_J], z[:1], True, parts=["real numbers"])

    sparse = numbers(3, 4, 5) * numbers(5).bool()
    for name, x in variants((*REAL, torch.bool), make=sparse.to):
        yield case(name, "nonzero", x)
    for shape in ((7,), (2, 1, 3, 2), (), (0, 3), (3, 0)):
        yield case("of_" + "x".join(map(str, shape)), "nonzero", numbers(*shape, dtype=torch.int8))
    yield case("zero", "nonzero", torch.tensor(0.0))
    tiny = torch.tensor([2.0**-1060, -0.0, float("nan")], dtype=torch.float64)
    yield case("small_numbers", "nonzero", tiny)
    flags = Formula(40, 2500, of=(7, 0, 3, -1, 1), dtype=torch.float32)
    yield case("large", "nonzero", flags)
    yield error("complex", "nonzero", z, parts=["found self complex64[2]", "real numbers"])
    yield error("null", "nonzero", None, parts=["self is a null handle"])

    positive = sparse > 0
    for size in (0, 2, int(positive.sum()), 100):
        yield case(f"of_{size}", "nonzero_static", positive, size, -1)
    yield case("zero", "nonzero_static", torch.tensor(0.0), 3, 7)
    yield case("one", "nonzero_static", torch.tensor(1.0), 3, 7)
    yield case("empty", "nonzero_static", numbers(0, 3), 2, 0)
    yield case("large", "nonzero_static", flags, 60_000, 5)
    parts = ["found size -1, expected 0 or more"]
    yield error("size", "nonzero_static", sparse, -1, 0, parts=parts)
    yield error("complex", "nonzero_static", z, 1, 0, parts=["real numbers"])
