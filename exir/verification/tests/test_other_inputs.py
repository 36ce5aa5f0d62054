"""Other sizes, layouts and numbers, made from the example inputs."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pteron.exir.operators.decompositions import functionalize
from pteron.exir.verification.other_inputs import other_inputs
from pteron.exir.verification.reference import Reference


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def others(
    function: Any, args: tuple[Any, ...], shapes: Any = None, fits: Any = lambda times: True
) -> list[Reference]:
    program = torch.export.export(Calls(function), args, dynamic_shapes=shapes and (shapes,))
    return list(other_inputs(Reference(program, functionalize(program)), fits))


def sizes(found: list[Reference]) -> list[tuple[Any, ...]]:
    """Of the inputs that are not the example's, only shapes and numbers."""
    return [
        tuple(tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in tried.given)
        for tried in found
        if tried.given is not None and tried.where.startswith("where")
    ]


def test_least_between_and_greatest() -> None:
    found = others(lambda x: x * 2, (torch.ones(5, 3),), ({0: Dim("b", max=64)},))
    assert sizes(found) == [((0, 3),), ((1, 3),), ((32, 3),), ((64, 3),)]
    assert found[-1].where == "where args_0 is [64, 3]"
    found = others(lambda x: x * 2, (torch.ones(5, 3),), ({0: Dim("b", min=2, max=64)},))
    assert sizes(found) == [((2, 3),), ((34, 3),), ((64, 3),)]  # even, since 5 is odd


def test_greatest_within_a_budget() -> None:
    shapes = ({0: Dim("b", max=1 << 16)},)
    found = others(lambda x: x * 2, (torch.ones(4, 3),), shapes, lambda times: times <= 300)
    assert sizes(found)[-1] == ((1024, 3),)
    assert not others(lambda x: x * 2, (torch.ones(4, 3),), shapes, lambda times: False)


def test_sizes_that_belong_together() -> None:
    h, b = Dim("h", min=1, max=8), Dim("b", min=1, max=6)
    found = others(
        lambda x, y: x.unflatten(1, (4, -1)).sum(1) + y,
        (torch.ones(3, 8), torch.ones(3, 2)),
        ({0: b, 1: 4 * h}, {0: b, 1: h}),
    )
    assert ((1, 8), (1, 2)) in sizes(found) and ((6, 32), (6, 8)) in sizes(found)
    for x, y in sizes(found):
        assert x[0] == y[0] and x[1] == 4 * y[1]
    alone = others(lambda x: x.unflatten(1, (4, -1)).sum(1), (torch.ones(3, 8),), ({1: 4 * h},))
    assert [x for (x,) in sizes(alone)] == [(3, 4), (3, 20), (3, 32)]


def test_guards_hold() -> None:
    found = others(lambda x: x.view(-1, 2).sum() + x, (torch.ones(4, 3),), ({0: Dim.AUTO(max=33)},))
    assert sizes(found)[-1] == ((32, 3),)
    assert all(x[0] % 2 == 0 for (x,) in sizes(found))


def test_no_nan_where_torch_s_kernels_differ() -> None:
    grid = torch.zeros(1, 2, 2, 2)
    for function, args in (
        (nn.functional.grid_sample, (torch.ones(1, 1, 3, 3), grid)),
        (torch.mode, (torch.ones(3, 3),)),
        (lambda x: torch.stft(x, 8, return_complex=True).abs(), (torch.ones(1, 40),)),
    ):
        assert not any("NaN" in tried.where for tried in others(function, args))
    assert any("NaN" in tried.where for tried in others(torch.sin, (grid,)))


def test_a_difference_that_the_program_excludes_is_not_tried() -> None:
    """torch.export notes that it is not 1, and a program refuses inputs of which it is."""
    shapes = ({1: Dim("a", min=5, max=20)}, {1: Dim("b", min=2, max=4)})
    args = (torch.ones(2, 9), torch.ones(2, 4))
    found = sizes(others(lambda x, y: x[:, : x.shape[1] - y.shape[1]], args, shapes))
    assert ((2, 6), (2, 4)) in found
    assert all(x[1] - y[1] > 1 for x, y in found)


def test_numbers_that_are_dynamic() -> None:
    found = others(lambda x, n: x * n, (torch.ones(3), 5), (None, Dim.DYNAMIC(min=2, max=9)))
    assert [n for _, n in sizes(found)] == [2, 9] or [n for _, n in sizes(found)][-1] == 9


def test_values_are_those_of_the_example() -> None:
    mask, ids = torch.tensor([[True, False, True]]), torch.tensor([[2, 0, 1]])
    length, table = torch.tensor([3]), torch.arange(40.0)
    time = Dim("time", min=1, max=5)
    found = others(
        lambda mask, ids, length, table: (mask * 1, ids * 1, length * 1, table * 1),
        (mask, ids, length, table),
        ({1: time}, {1: time}, None, None),
    )
    longest = found[-1].inputs()
    assert longest[0].tolist() == [[True, False, True, True, False]]
    assert longest[1].tolist() == [[2, 0, 1, 2, 0]]
    (least,) = [f.inputs() for f in found if f.given is not None and f.given[0].shape[1] == 1]
    # What may count, or choose among, what there are fewer of now.
    assert least[1].tolist() == [[0]] and least[2].tolist() == [1]


def test_layouts_have_the_same_values() -> None:
    x, v = torch.randn(2, 3, 4, 5), torch.randn(6)
    found = others(lambda x, v: (x * 2, v * 2), (x, v))
    strided, last = found[0].inputs(), found[1].inputs()
    for tried in (strided, last):
        assert torch.equal(tried[0], x) and torch.equal(tried[1], v)
    assert not strided[0].is_contiguous() and strided[1].stride() == (2,)
    assert last[0].is_contiguous(memory_format=torch.channels_last)
    # Each call has tensors of its own.
    assert found[0].inputs()[0].data_ptr() != strided[0].data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_no_numbers_among_the_inputs(dtype: torch.dtype) -> None:
    (tried,) = (
        t
        for t in others(lambda x, n: (x * 2, n * 2), (torch.ones(9, 9, dtype=dtype), torch.ones(3)))
        if "NaN" in t.where
    )
    x, n = tried.inputs()
    assert x.dtype == dtype and x.isnan().sum() == 1 and x.isinf().sum() == 2
    assert (x == 0).sum() == 2 and (x == 1).sum() == 76
    assert not torch.equal(n, torch.ones(3))
    assert not [t for t in others(lambda i: i * 2, (torch.ones(3, dtype=torch.int64),))][2:]


def test_guards_that_lowering_adds_do_not_count() -> None:
    x = torch.ones(4, 3)
    program = torch.export.export(
        Calls(lambda x: x * 2), (x,), dynamic_shapes=(({0: Dim("b", max=64)},),)
    )
    tried = Reference(program, functionalize(program))
    (size, _) = program.graph.find_nodes(op="placeholder")[0].meta["val"].shape
    assert size < 10  # such as code that was compiled for sizes about the example's asks
    assert sizes(list(other_inputs(tried, lambda times: True)))[-1] == ((64, 3),)


@pytest.mark.parametrize("ends", [[0, 2], [3, 0]])
def test_ascending_indices_stay_so(ends: list[int]) -> None:
    """As the offsets of an EmbeddingBag."""
    args = torch.arange(9.0), torch.tensor(ends)
    shapes = ({0: Dim("n", min=9, max=16)}, {0: Dim("b", min=2, max=8)})
    found = others(lambda x, of: x.cumsum(0)[of], args, shapes)
    made = [tried.given[1] for tried in found if tried.where.startswith("where")]
    assert any(len(given) == 8 for given in made)
    assert all(
        bool((given.diff() >= 0).all()) is (ends[0] == 0) for given in made if len(given) > 2
    )
