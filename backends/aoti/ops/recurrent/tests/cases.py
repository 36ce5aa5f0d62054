"""Steps of recurrent layers."""

from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.tests.case import *

_OP = "recurrent_steps"
_GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
#: steps, batch, units: of whole blocks and of others, of one row and of several
_SIZES = [(1, 1, 16), (3, 1, 48), (2, 2, 5), (4, 3, 37), (2, 5, 64), (3, 9, 20), (2, 1, 0)]


def _small(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Small enough that gates are not saturated."""
    return numbers(*shape, dtype=dtype, seed=seed) / 16


def _arguments(
    kind: str,
    steps: int,
    batch: int,
    units: int,
    dtype: torch.dtype = torch.float32,
    outputs: int | None = None,
    **changes: Any,
) -> list[Any]:
    width = units if outputs is None else outputs
    gates = _GATES[kind] * units
    named: dict[str, Any] = dict(
        input=numbers(steps, batch, gates, dtype=dtype) / 2,
        weight=_small(gates, width, dtype=dtype, seed=1),
        bias=_small(gates, dtype=dtype, seed=2),
        projection=None if outputs is None else _small(outputs, units, dtype=dtype, seed=3),
        hx=_small(batch, width, dtype=dtype, seed=4),
        cx=_small(batch, units, dtype=dtype, seed=5) if kind == "lstm" else None,
        kind=kind,
        reverse=False,
    )
    return list((named | changes).values())


def cases() -> Iterator[Json]:
    for kind in _GATES:
        for dtype in (torch.float32, torch.float64):
            for i, (steps, batch, units) in enumerate(_SIZES):
                changes: dict[str, Any] = {"bias": None} if i % 3 == 1 else {}
                changes["reverse"] = i % 2 == 1
                yield case(
                    f"{kind}/{short(dtype)}/{i}",
                    _OP,
                    *_arguments(kind, steps, batch, units, dtype, **changes),
                    wide=True,
                    tolerance=2e-6 if dtype == torch.float32 else 1e-14,
                )
    for i, (batch, units, outputs) in enumerate([(1, 32, 16), (3, 20, 7), (2, 5, 21), (2, 5, 0)]):
        arguments = _arguments("lstm", 3, batch, units, outputs=outputs)
        yield case(f"projection/{i}", _OP, *arguments, wide=True, tolerance=2e-6)
    for layout, x in layouts(numbers(3, 2, 80) / 2):
        arguments = _arguments("lstm", 3, 2, 20, input=x)
        yield case(f"layout/{layout}", _OP, *arguments, wide=True, tolerance=2e-6)
    yield case("empty", _OP, *_arguments("gru", 2, 0, 4))
    yield from _not_finite()
    yield from _errors()


def _not_finite() -> Iterator[Json]:
    x = numbers(2, 1, 20)
    x[0, 0, 0], x[0, 0, 6], x[0, 0, 12], x[0, 0, 18] = float("nan"), 1e4, -1e4, float("inf")
    for kind, units in (("lstm", 5), ("relu", 20), ("tanh", 20)):
        zeros = torch.zeros(_GATES[kind] * units, units)
        arguments = _arguments(kind, 2, 1, units, input=x, weight=zeros)
        yield case(f"not_finite/{kind}", _OP, *arguments, wide=True, tolerance=2e-6)


def _errors() -> Iterator[Json]:
    def wrong(name: str, *parts: str, kind: str = "lstm", **changes: Any) -> Json:
        return error(name, _OP, *_arguments(kind, 2, 3, 4, **changes), parts=parts)

    sizes = "expected [steps, batch, gates]"
    other = (*_arguments("gru", 2, 3, 4)[:-2], "peephole", False)
    yield error("kind", _OP, *other, parts=["found kind peephole"])
    yield wrong("rank", "expected an input of 3 dimensions", input=numbers(2, 16))
    yield wrong("no_steps", "at least one step", input=numbers(0, 3, 16))
    yield wrong("weight", "weight float32[15, 4]", sizes, weight=numbers(15, 4))
    yield wrong("bias", "bias float32[4]", sizes, bias=numbers(4))
    yield wrong("projection", sizes, projection=numbers(4, 5))
    yield wrong("projection_of_gru", sizes, kind="gru", projection=numbers(4, 4))
    yield wrong("hx", "hx float32[1, 4]", sizes, hx=numbers(1, 4))
    yield wrong("no_cx", "cx none", sizes, cx=None)
    yield wrong("cx_of_gru", sizes, kind="gru", cx=numbers(3, 4))
    yield wrong("dtypes", "expected one dtype", hx=numbers(3, 4).double())
    yield error("half", _OP, *_arguments("gru", 2, 3, 4, torch.float16), parts=["no kernel for"])
