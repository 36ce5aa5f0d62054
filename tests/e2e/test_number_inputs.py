"""Integers as dynamic inputs: they may be sizes, values and limits, and each is checked."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import pteron
from pteron.runtime import InvalidArgumentError, Method, PteronError, Runtime


class Module(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, n: int) -> Any:
        return self.function(x, n)


def steps(x: torch.Tensor, n: int) -> Any:
    torch._check(n <= x.shape[0])
    return x[:n].sum(0), n + 1, torch.arange(n), x.new_full((n,), n), x * n


def groups(x: torch.Tensor, n: int) -> Any:
    torch._check(n <= 64)
    torch._check(n % 4 == 0)
    torch._check(n <= x.shape[0])
    return x[:n].cumsum(0) + n // 4


def halves(x: torch.Tensor, n: int) -> Any:
    torch._check(n <= 50)
    return x.view(n, 2, 3) + n


def only_host(x: torch.Tensor, n: int) -> Any:
    return x.exp(), n * 2 - 1


ROWS = {0: Dim("rows", min=4, max=100)}
# Function, rows of the example, n, dynamic shapes; (rows, n) that work; (rows, n, what is said).
CASES: dict[str, tuple[Any, int, int, Any, list[Any], list[Any]]] = {
    "steps": (
        steps, 12, 5, None, [(12, 0), (12, 1), (12, 2), (12, 12)],
        [
            (12, 13, "input n: found 13, expected 0 to 12"),
            (12, -1, "input n: found -1, expected 0 to 12"),
            (12, 2**62, "found 4611686018427387904, expected 0 to 12"),
        ],
    ),
    "groups": (
        groups, 16, 8, ROWS, [(16, 16), (100, 64), (4, 4)],
        [
            (16, 6, r"input n: found 6, expected .*4"),
            (16, 20, r"input n: found 20, expected n <= x.size\(0\)"),
            (100, 68, "input n: found 68, expected 0 to 64"),
        ],
    ),
    "halves": (
        halves, 16, 8, {0: Dim.DYNAMIC}, [(6, 3), (100, 50)],
        [(8, 3, r"input n: found 3, expected x.size\(0\) == 2\*n"), (0, 0, "expected 1 to 50")],
    ),
    "only_host": (
        only_host, 4, 3, None, [(4, 0), (4, 2**40)], [(4, -3, "found -3, expected at least 0")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, tmp_path: Path) -> None:
    function, rows, n, shapes, works, fails = CASES[name]
    model = Module(function)
    path = tmp_path / "model.pte"
    example = torch.randn(rows, 3), n
    report = pteron.export(model, example, path, dynamic_shapes=(shapes, Dim.DYNAMIC))
    assert "n is" in str(report)  # verified with other values of it, too
    method = Runtime.get().load_program(path).load_method("forward")
    for size, number in [(rows, n), *works]:
        x = torch.randn(size, 3)
        torch.testing.assert_close(method(x, number), model(x, number))
    for size, number, message in fails:
        with pytest.raises(InvalidArgumentError, match=message):
            method(torch.randn(size, 3), number)
    x = torch.randn(example[0].shape)
    torch.testing.assert_close(method(x, example[1]), model(x, example[1]))


def exported(tmp_path: Path, function: Any) -> Method:
    path = tmp_path / "model.pte"
    shapes = (None, Dim.DYNAMIC)
    pteron.export(Module(function), (torch.randn(12, 3), 5), path, dynamic_shapes=shapes)
    return Runtime.get().load_program(path).load_method("forward")


def test_other_kinds_of_numbers(tmp_path: Path) -> None:
    method = exported(tmp_path, steps)
    x = torch.randn(12, 3)
    torch.testing.assert_close(method(x, torch.tensor(7)), Module(steps)(x, 7))
    for wrong in (5.0, "5", None, True, torch.tensor(5.0), torch.tensor([5])):
        with pytest.raises(PteronError, match=r"input 1 \(n\): it is .*, expected Int"):
            method(x, wrong)
    with pytest.raises(InvalidArgumentError, match="an int of more than 64 bits"):
        method(x, 2**64)


def test_a_size_needs_a_bound(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dimension 0 of the result of arange.*\(s\d+\)"):
        exported(tmp_path, lambda x, n: torch.arange(n).sum() + x)
