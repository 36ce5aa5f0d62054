"""Random numbers: sizes, dtypes and errors. Their distributions are tested in random.cpp."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    shim = "randint_low_out"
    dtypes = (torch.int64, torch.int32, torch.uint8, torch.float32, torch.bfloat16)
    for name, out in variants(dtypes, 3, 4):
        yield case(name, shim, out, 7, 8, [3, 4])  # one number is possible
    yield case("empty", shim, torch.zeros(0, 2), -1, 5, [0, 2])
    out = torch.zeros(4, dtype=torch.int64)
    yield error("range", shim, out, 5, 5, [4], parts=["found low 5 and high 5"])
    yield error("size", shim, out, 0, 5, [5], parts=["found out int64[4]", "sizes"])
    yield error("complex", shim, numbers(4, dtype=torch.complex64), 0, 5, [4], parts=["real"])

    yield case("default", "randperm", 100, None, None, None, None, unchecked=[0])
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float16):
        yield case(short(dtype), "randperm", 100, dtype, None, None, None, unchecked=[0])
    yield case("one", "randperm", 1, None, None, None, None)
    yield case("none", "randperm", 0, None, None, None, None)
    yield error("n", "randperm", -1, None, None, None, None, parts=["found n -1"])
    yield error("dtype", "randperm", 4, torch.complex64, None, None, None, parts=["complex64"])

    shim = "multinomial"
    for name, x in variants(FLOATING, make=numbers(3, 4).abs().to):
        yield case(name, shim, x, 2, False, None, unchecked=[0])
        # One position is possible in each row.
        x[:] = torch.eye(4)[:3]
        yield case(f"{name}/certain", shim, x, 6, True, None)
        yield case(f"{name}/one", shim, x, 1, False, None)
    yield case("one_row", shim, torch.ones(5), 7, True, None, unchecked=[0])
    yield case("no_rows", shim, torch.zeros(0, 3), 2, True, None)
    x = torch.ones(2, 3)
    yield error("too_many", shim, x, 4, False, None, parts=["found 4 samples", "at most 3"])
    yield error("none", shim, x, 0, True, None, parts=["found 0 samples"])
    yield error("dim", shim, torch.ones(1, 2, 3), 1, True, None, parts=["float32[1, 2, 3]"])
    yield error("integers", shim, x.long(), 1, True, None, parts=["found self int64[2, 3]"])
    yield error("zeros", shim, x * 0, 1, True, None, parts=["sum 0"], host=True)
    yield error("negative", shim, x - torch.eye(2, 3) * 2, 1, True, None, parts=["0"], host=True)
