"""Other views of the same bytes."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    for name, z in variants((torch.complex64, torch.complex128), 3, 4):
        yield case(name, "view_as_real", z)
        pairs = torch.view_as_real(z)
        if pairs.storage_offset() % 2 == 0:
            yield case(name, "view_as_complex", pairs)
    yield case("no_dimensions", "view_as_real", torch.tensor(1 + 2j))
    yield case("one_pair", "view_as_complex", torch.tensor([1.0, 2.0]))
    x = numbers(4, 3)
    yield error("real", "view_as_real", x, parts=["found self float32[4, 3]", "complex"])
    yield error("triples", "view_as_complex", x, parts=["found self float32[4, 3]", "pairs"])
    yield error("integers", "view_as_complex", x[:, :2].int(), parts=["int32[4, 2]"])
    yield error("gaps", "view_as_complex", numbers(4, 4)[:, ::2], parts=["pairs"])
    yield error("odd", "view_as_complex", x[:, :2], parts=["stride 3", "multiple of 2"])
    yield error("offset", "view_as_complex", numbers(4, 4)[:, 1:3], parts=["offset 1"])

    for name, x in (
        ("row", numbers(4, 6)),
        ("cut", numbers(4, 12)[:, :6]),
        ("3d", numbers(2, 3, 8)),
    ):
        for dtype in (torch.int32, torch.int16, torch.uint8, torch.float64, torch.complex64):
            yield case(f"{name}/{short(dtype)}", "view_dtype", x, dtype)
    yield case("swapped", "view_dtype", numbers(4, 6).t(), torch.int32)
    x = numbers(4, 5)
    yield error("odd", "view_dtype", x, torch.float64, parts=["viewed as float64", "divides"])
    yield error("gaps", "view_dtype", x.t(), torch.int16, parts=["without gaps"])
    yield error("dtype", "view_dtype", x, 99, parts=["dtype 99"])

    for layout, x in layouts(numbers(2, 3, 4)):
        for dims in ([2, 0, 1], [0, 1, 2], [-1, -2, -3]):
            yield case(f"{layout}/{dims[0]}", "permute", x, dims)
        for shape in ([6, 4], [24], [2, 1, 3, 4, 1], [3, -1], [4, 3, 2], [2, 3, 2, 2]):
            yield case(f"{layout}/{len(shape)}/{shape[0]}", "reshape", x, shape)
        for i, (dim, *range_) in enumerate(
            [(0, 1, None, 1), (1, None, -1, 1), (-1, -3, 99, 2), (2, 3, 1, 1), (2, -99, 3, 3)]
        ):
            yield case(f"{layout}/{i}", "slice_Tensor", x, dim, *range_)
    yield case("empty", "reshape", torch.zeros(2, 0, 3), [3, 0])
    yield case("no_dimensions", "reshape", torch.tensor(2.0), [1, 1])
    yield case("to_no_dimensions", "reshape", torch.ones(1, 1), [])
    yield case("repeated", "reshape", numbers(3, 1).expand(3, 4), [3, 2, 2])
    yield case("complex", "reshape", numbers(3, 4, dtype=torch.complex64).t(), [12])
    yield case("complex", "slice_Tensor", numbers(3, 4, dtype=torch.complex64), 1, 1, 3, 1)
    for dims in ([0, 1], [0, 0, 1]):
        yield error(f"dims/{len(dims)}", "permute", x, dims, parts=["found"])
    yield error("dim", "permute", x, [0, 1, 3], parts=["dimension 3"])
    yield error("shape", "reshape", x, [5, 5], parts=["found self", "25 elements"])
    yield error("rest", "reshape", x, [7, -1], parts=["7 elements"])
    yield error("rests", "reshape", x, [-1, -1], parts=["2 sizes of -1"])
    yield error("step", "slice_Tensor", x, 0, None, None, 0, parts=["step 0"])
    yield error("dim", "slice_Tensor", x, 3, None, None, 1, parts=["dimension 3"])
