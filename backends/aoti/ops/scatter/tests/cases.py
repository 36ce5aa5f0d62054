"""Writing and reducing along a dimension."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _numbers(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Small enough that products of some fit into every dtype."""
    x = numbers(*shape, dtype=dtype, seed=seed)
    return (x / 2).round() + 0.5 if dtype.is_floating_point else x % 4 if dtype != torch.bool else x


def _index(dim: int, size: int, *shape: int) -> torch.Tensor:
    """Numbers below `size`, distinct along `dim`."""
    sizes = [size if d == dim else n for d, n in enumerate(shape)]
    order = torch.rand(sizes, generator=torch.Generator().manual_seed(2)).argsort(dim)
    return order.narrow(dim, 0, shape[dim])


def cases() -> Iterator[Json]:
    shape = (4, 3, 5)
    for dim in (0, 1, -1):
        index = _index(dim % 3, shape[dim], 2, 3, 4)
        for layout, source in layouts(numbers(2, 3, 5, seed=1)):
            x = numbers(*shape)
            yield case(f"{layout}/{dim}", "scatter_src_out", x, x, dim, index, source)
        for layout, out in layouts(torch.zeros(shape)):
            x = numbers(*shape)
            yield case(f"{layout}/{dim}", "scatter_value_out", out, x, dim, index, 2.5)
    index = _index(1, 4, 2, 3)
    for dtype in (*REAL, torch.bool, torch.complex64):
        x, out = numbers(3, 4, dtype=dtype), torch.zeros(3, 4, dtype=dtype)
        source = numbers(2, 3, dtype=dtype, seed=1)
        yield case(short(dtype), "scatter_src_out", out, x, 1, index, source)
        yield case(short(dtype), "scatter_value_out", out, x, 1, index, 3.0)
    out, x = torch.zeros(4, 50), numbers(4, 50)
    many = Formula(3, 40, of=(7, 1, 50, 0, 1), dtype=torch.int64)
    yield case("many", "scatter_src_out", out, x, 1, many, numbers(3, 44, seed=1))

    for dtype in (*REAL, torch.bool):
        x = _numbers(3, 4, dtype=dtype, seed=0)
        index = numbers(2, 6, dtype=torch.uint8).long() % 4
        source = _numbers(2, 6, dtype=dtype, seed=1)
        for reduce in _REDUCTIONS if dtype != torch.bool else ("sum", "prod", "amax", "amin"):
            for include_self in (False, True):
                name = f"{short(dtype)}/{reduce}" + ("/self" if include_self else "")
                yield case(
                    name, "scatter_reduce_two_out", torch.zeros(3, 4, dtype=dtype), x, 1, index,
                    source, reduce, include_self, wide=dtype.is_floating_point,
                    tolerance=2e-2 if short(dtype) == "bfloat16" else None,
                )  # fmt: skip
    for (layout, x), (_, source) in zip(
        layouts(numbers(3, 4, 2, dtype=torch.int64)),
        layouts(numbers(5, 4, 2, dtype=torch.int64, seed=1)),
        strict=True,
    ):
        index = numbers(4, 5, 2, dtype=torch.uint8).transpose(0, 1).long() % 3
        for reduce in _REDUCTIONS:
            name = f"{layout}/{reduce}"
            yield case(name, "scatter_reduce_two_out", x, x, -3, index, source, reduce, True)
    x = numbers(5)
    x[1] = float("nan")
    index = torch.tensor([0, 1, 0, 3, 3])
    for reduce in ("amax", "amin"):
        out, name = x.clone(), f"nan/{reduce}"
        yield case(name, "scatter_reduce_two_out", out, x, 0, index, x.flip(0), reduce, True)
    often = Formula(8000, of=(1, 0, 37, 0, 1), dtype=torch.int64)
    values = Formula(8000, of=(31, 7, 127, -63, 1), dtype=torch.float32)
    for reduce in ("sum", "mean", "amax"):
        out = torch.zeros(37)
        yield case(f"often/{reduce}", "scatter_reduce_two_out", out, out, 0, often, values, reduce,
                   False, tolerance=1e-6)  # fmt: skip

    # The result lies where the indices do, and is at first what they would be.
    index, x = torch.tensor([2, 0, 1]), torch.tensor([300, 500, 700])
    yield case("index_is_out", "scatter_src_out", index, x, 0, index, x * 2)
    yield case("index_is_out", "scatter_reduce_two_out", index, x, 0, index, x, "mean", False)

    for dtype in REAL:
        for reduce in _REDUCTIONS[1:]:
            x, source = (_numbers(3, n, 2, dtype=dtype, seed=n) for n in (4, 6))
            index = torch.tensor([0, 3, 0, 1, 1, 0])
            include_self = reduce in ("prod", "mean")
            yield case(
                f"{short(dtype)}/{reduce}", "index_reduce", x, 1, index, source, reduce,
                include_self, wide=dtype.is_floating_point,
                tolerance=2e-2 if short(dtype) == "bfloat16" else None,
            )  # fmt: skip
    for layout, x in layouts(numbers(3, 4, 2)):
        index = torch.tensor([2, 0], dtype=torch.int32)
        yield case(layout, "index_reduce", x, 0, index, x[:2], "amax", False)

    x, index = numbers(2, 3), torch.zeros(1, 3).long()
    rest: dict[str, tuple[torch.Tensor | float | str | bool, ...]] = {
        "scatter_src_out": (x[:1],),
        "scatter_value_out": (1.0,),
        "scatter_reduce_two_out": (x[:1], "sum", True),
    }
    for shim, tail in rest.items():
        out = numbers(2, 3)
        empty, scalar = torch.zeros(0).long(), torch.tensor(5.0)
        yield case("empty", shim, out, x, 0, empty, *(empty.float() if t is tail[0] and (
            shim != "scatter_value_out") else t for t in tail))  # fmt: skip
        first = (torch.tensor(2.0),) if shim != "scatter_value_out" else tail[:1]
        yield case("no_dimensions", shim, scalar, scalar, 0, torch.tensor(0), *first, *tail[1:])
        yield error("null", shim, None, x, 0, index, *tail, parts=["out is a null handle"])
        yield error("dim", shim, out, x, 2, index, *tail, parts=["dimension 2"])
        parts = ["found out float32[3, 2], self float32[2, 3]"]
        yield error("out", shim, numbers(3, 2), x, 0, index, *tail, parts=parts)
        repeated = numbers(1, 3).expand(2, 3)
        yield error("repeated", shim, repeated, x, 0, index, *tail, parts=["repeated elements"])
        parts = ["found index float32[1, 3]"]
        yield error("reals", shim, out, x, 0, index.float(), *tail, parts=parts)
        wide = torch.zeros(1, 4).long()
        yield error("larger", shim, out, x, 0, wide, *tail, parts=["found index int64[1, 4]"])
        for bad in (2, -1):
            parts = [f"found index {bad}, expected 0 to 1 for dimension 0 of float32[2, 3]"]
            yield error(f"outside{bad}", shim, out, x, 0, index + bad, *tail, parts=parts,
                        host=True)  # fmt: skip
    reduced = (numbers(2, 3), x, 0, index, x[:1])
    parts = ["found reduce median"]
    yield error("reduce", "scatter_reduce_two_out", *reduced, "median", True, parts=parts)
    parts = ["found source float64[1, 3], self float32[2, 3]"]
    yield error("dtype", "scatter_src_out", *reduced[:4], x[:1].double(), parts=parts)
    z = numbers(3, dtype=torch.complex64)
    yield error("complex", "scatter_reduce_two_out", z, z, 0, index[0], z, "sum", True,
                parts=["real numbers"])  # fmt: skip
    row = index[0]
    for name, tail in {"source": (row, x, "prod"), "sum": (row[:2], x, "sum")}.items():
        yield error(name, "index_reduce", x, 0, *tail, True, parts=["found self float32[2, 3]"])
    yield error("outside", "index_reduce", x, 0, row[:2] + 2, x, "prod", True,
                parts=["found index 2"], host=True)  # fmt: skip
