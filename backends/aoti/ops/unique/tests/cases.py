"""What differs."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def _few(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Some of a few numbers, equal ones next to each other, too."""
    x = numbers(*shape, dtype=torch.int8)
    x = (x / 3).round().abs() if dtype in (torch.uint8, torch.bool) else (x / 3).round() / 2
    return (x if dtype.is_floating_point else x * 2).to(dtype)


def cases() -> Iterator[Json]:
    for dtype in (*REAL, torch.bool):
        for name, x in variants([dtype], 3, 4, 5, make=_few):
            yield case(name, "_unique2", x, True, True, True)
            yield case(name, "unique_consecutive", x, True, True, None)
        # Few columns, so that rows repeat.
        for name, x in variants([dtype], 8, 2, make=_few):
            yield case(name, "unique_dim", x, 0, True, True, True)
            turned = x.t()
            yield case(name + "/1", "unique_dim", turned, 1, True, True, True, row_major=True)
            name += "/1"
            yield case(name, "unique_consecutive", turned, True, True, -1, row_major=True)
    x = _few(2, 6, 2, dtype=torch.float32)
    yield case("middle", "unique_dim", x, 1, True, True, True, row_major=True)
    yield case("middle", "unique_consecutive", x, True, True, 1, row_major=True)
    for inverse in (False, True):
        for counts in (False, True):
            name = f"inverse_{inverse}/counts_{counts}"
            yield case(name, "_unique2", x, False, inverse, counts)
            yield case(name, "unique_consecutive", x, inverse, counts, None)
            yield case(name, "unique_dim", x, 0, True, inverse, counts)
    x = torch.tensor([3.0, 1, float("nan"), 1, -0.0, 0.0, float("nan"), 2, 2, float("inf")])
    for dtype in FLOATING:
        yield case(f"{short(dtype)}/nan", "_unique2", x.to(dtype), True, True, True)
        yield case(f"{short(dtype)}/nan", "unique_consecutive", x.to(dtype), True, True, None)
    yield case("one_column", "unique_dim", _few(9, 1, dtype=torch.int32), 0, True, True, True)
    wide = torch.tensor([2**62 + 1, -(2**62), 2**62, 2**62 + 1])
    yield case("wide", "_unique2", wide, True, True, True)
    yield case("wide_rows", "unique_dim", torch.stack([wide, wide], 1), 0, True, True, True)
    for name, x in {"same": torch.zeros(70), "all": torch.arange(70).flip(0)}.items():
        yield case(name, "_unique2", x, True, True, True)
        yield case(name, "unique_consecutive", x, True, True, None)
    yield case("no_dimensions", "_unique2", torch.tensor(3.0), True, True, True)
    yield case("no_dimensions", "unique_consecutive", torch.tensor(3.0), True, True, None)
    for x in (torch.zeros(0), torch.zeros(0, 3)):
        name = f"empty{x.dim()}"
        yield case(name, "_unique2", x, True, True, True)
        yield case(name, "unique_dim", x, 0, True, True, True)
        yield case(name, "unique_consecutive", x, True, True, None)
        yield case(f"{name}/0", "unique_consecutive", x, True, True, 0)
    large = Formula(70000, of=(7919, 3, 20011, -9000, 0.5), dtype=torch.float32)
    yield case("large", "_unique2", large, True, True, True)
    large = Formula(70000, of=(1, 0, 3, 0, 1), dtype=torch.int16)
    yield case("large", "unique_consecutive", large, True, True, None)
    rows = Formula(3000, 4, of=(1, 0, 1204, 0, 1), dtype=torch.int32)
    yield case("large", "unique_dim", rows, 0, True, True, True)

    z, x = numbers(3, dtype=torch.complex64), torch.zeros(2, 0)
    rest: dict[str, tuple[int | bool, ...]] = {
        "_unique2": (True, True, True),
        "unique_dim": (0, True, True, True),
        "unique_consecutive": (True, True, 0),
    }
    for shim, options in rest.items():
        yield error("complex", shim, z, *options, parts=["found self complex64[3]"])
        yield error("null", shim, None, *options, parts=["self is a null handle"])
        if shim != "_unique2":
            yield error("no_columns", shim, x, *options, parts=["found self float32[2, 0]"])
            one = torch.tensor(1.0)
            yield error("no_dims", shim, one, *options, parts=["found self float32[]"])
    yield error("dim", "unique_dim", x, 2, True, True, True, parts=["dimension 2"])
