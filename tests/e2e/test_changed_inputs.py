"""Inputs that a compiled model changes in place, in memory of any layout, as eager changes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from pteron.runtime import InvalidArgumentError, Method
from tests.e2e.lowering import lower_to_file


class Accumulate(torch.nn.Module):
    """Changes `total` and `last`, and reads `x`."""

    def forward(self, total: torch.Tensor, x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        last.copy_(x.sum(1))
        return total * 2


@pytest.fixture(scope="module")
def method(tmp_path_factory: pytest.TempPathFactory) -> Method:
    rows = Dim("rows", min=1, max=8)
    args = (torch.randn(3, 4), torch.randn(3, 4), torch.randn(3))
    program = torch.export.export(
        Accumulate(), args, dynamic_shapes=({0: rows}, {0: rows}, {0: rows})
    )
    path: Path = tmp_path_factory.mktemp("changed") / "model.pte"
    return lower_to_file(program, path).load_method("forward")


LAYOUTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "contiguous": torch.clone,
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: torch.stack([x, x], 2).flatten(1)[:, ::2],
    "offset": lambda x: torch.cat([x, x])[len(x) :],
    "imaginary": lambda x: torch.complex(x, -x).conj().imag,
    "negative": lambda x: torch._neg_view(-x),
    "fortran": lambda x: np.asfortranarray(x.numpy()),
    "reversed": lambda x: x.numpy()[::-1].copy()[::-1],
    "parameter": lambda x: torch.nn.Parameter(x.t().contiguous()).t(),
}


def as_tensor(x: Any) -> torch.Tensor:
    return torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x.detach()


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_caller_sees_what_eager_would_show(method: Method, layout: str, rows: int) -> None:
    torch.manual_seed(rows)
    total, x, last = torch.randn(rows, 4), torch.randn(rows, 4), torch.zeros(rows, 2)[:, 1]
    expected_total, expected_last = total.clone(), last.clone()
    given = LAYOUTS[layout](total)
    for _ in range(2):
        expected = Accumulate()(expected_total, x, expected_last)
        (found,) = method.execute([given, LAYOUTS[layout](x), last])
        torch.testing.assert_close(as_tensor(found), expected)
        torch.testing.assert_close(as_tensor(given), expected_total)
        torch.testing.assert_close(last, expected_last)


def test_what_cannot_show_the_change_is_refused(method: Method) -> None:
    x, last = torch.randn(3, 4), torch.zeros(3)
    locked = np.zeros((3, 4), np.float32, order="F")
    locked.flags.writeable = False
    bad: list[tuple[list[Any], str]] = [
        ([torch.zeros(1, 4).expand(3, 4), x, last], "total.* one place in memory"),
        ([locked, x, last], "total.* read-only"),
        ([x, x, last], "shares memory with input 1"),
        ([x, last[:, None].expand(3, 4), last], "last.* shares memory with input 1"),
    ]
    for inputs, why in bad:
        with pytest.raises(InvalidArgumentError, match=why):
            method.execute(inputs)
    assert not last.any()
