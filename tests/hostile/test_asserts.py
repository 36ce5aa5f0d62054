"""What a model asserts holds, or the run is an error: in a delegate, beside it, or without any."""

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from pteron.backends.aoti.aoti_partitioner import LeftOutWarning
from pteron.backends.cpu import CpuPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import InvalidArgumentError, Method, Runtime
from tests.hostile.together import Case, Together, eager

T = torch.Tensor

_X = torch.ones(8)


def _number(value: int) -> T:
    return torch.tensor(value)


def _within(x: T, i: T) -> T:
    number: Any = i.item()
    torch._check(number >= 2)
    torch._check(number <= 5)
    return x * 2


def _returned(x: T, i: T) -> T:
    number: Any = i.item()
    torch._check(number < 5)
    return x


def _other_than(x: T, i: T) -> T:
    number: Any = i.item()
    torch._check(number != 3)
    return x * 2


def _even(x: T, i: T) -> T:
    number: Any = i.item()
    torch._check(number % 2 == 0)
    return x * 2


def _one_of_two(x: T, i: T) -> T:
    a, b = i.tolist()
    torch._check((a > 2) | (b > 2))
    return x * 2


def _sum_of_two(x: T, i: T) -> T:
    a, b = i.tolist()
    torch._check(a + b < 10)
    return x * 2


def _size(x: T, i: T) -> T:
    number: Any = i.item()
    torch.sym_constrain_range_for_size(number, min=2, max=7)
    return x * 2


def _positive(x: T, y: T) -> T:
    torch._assert_async((y > 0).all(), "all are positive")
    return x * 2


def _flag(x: T, flag: T) -> T:
    torch._assert_async(flag, "the flag is set")
    return x


def _flag_as_a_number(x: T, flag: T) -> T:
    holds: Any = flag.item()
    torch._check(holds)
    return x


def _found(x: T, y: T) -> T:
    torch._check(torch.nonzero(y).shape[0] >= 2)
    return x * 2


_FLAGS = [(_X, torch.tensor(True)), (_X, torch.tensor(False))]
_PAIR = torch.tensor([4, 1])
_CASES = [
    Case("within", _within, (_X, _number(4)), [(_X, _number(n)) for n in (1, 2, 5, 6, -(2**63))]),
    Case("returned", _returned, (_X, _number(4)), [(_X, _number(5)), (_X, _number(2**62))]),
    Case("other than", _other_than, (_X, _number(4)), [(_X, _number(3)), (_X, _number(2))]),
    Case("even", _even, (_X, _number(4)), [(_X, _number(3)), (_X, _number(-1)), (_X, _number(0))]),
    Case(
        "one of two",
        _one_of_two,
        (_X, _PAIR),
        [(_X, torch.tensor(pair)) for pair in ((0, 3), (3, 3), (2, 2))],
    ),
    Case(
        "sum of two",
        _sum_of_two,
        (_X, _PAIR),
        [(_X, torch.tensor(pair)) for pair in ((9, 0), (5, 5), (-4, 20))],
    ),
    Case("size", _size, (_X, _number(4)), [(_X, _number(n)) for n in (2, 7, 1, 8, -1)]),
    Case("positive", _positive, (_X, _X.clone()), [(_X, -_X), (_X, torch.arange(8.0))]),
    Case("flag", _flag, (_X, torch.tensor(True)), _FLAGS),
    Case("flag as a number", _flag_as_a_number, (_X, torch.tensor(True)), _FLAGS),
    Case("found", _found, (_X, _X.clone()), [(_X, torch.zeros(8)), (_X, torch.eye(8)[0])]),
]

_ASSERTIONS = ("aten._assert_scalar", "aten._assert_async")
#: Who checks: one delegate with all else, one that is made at the end, kernels of the runtime, and
#: a delegate beside that of the results.
_PLACES: dict[str, Callable[[], Sequence[CpuPartitioner]]] = {
    "delegate": lambda: [CpuPartitioner()],
    "leftovers": lambda: [],
    "kernels": lambda: [CpuPartitioner(leave_out=_ASSERTIONS)],
    "apart": lambda: [CpuPartitioner(leave_out=["aten.mul"]), CpuPartitioner()],
}


_TOGETHER = Together(_CASES)


@pytest.fixture(scope="module", params=_PLACES)
def method(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Method:
    exported = torch.export.export(_TOGETHER.eval(), (_TOGETHER.arguments(),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        edge = to_edge_transform_and_lower(exported, partitioner=_PLACES[request.param]())
    path = tmp_path_factory.mktemp("hostile") / "model.pte"
    edge.to_executorch().save(path)
    return Runtime.get().load_program(path).load_method("forward")


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_as_eager(method: Method, case: Case) -> None:
    for arguments in (case.arguments, *case.others):
        flat = [value.numpy() for value in _TOGETHER.arguments(case.name, arguments)]
        expected = eager(case, arguments)
        if isinstance(expected, Exception):
            with pytest.raises(InvalidArgumentError) as error:
                method.execute(flat)
            said = r"check in the model: .+ \(aten\.\w+\.\w+, together\.py:\d+\)"
            assert re.search(said, str(error.value))
        else:
            found = _TOGETHER.of_case(case.name, method.execute(flat))
            assert torch.equal(torch.from_dlpack(found), expected)
