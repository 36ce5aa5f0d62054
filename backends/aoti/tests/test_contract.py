"""Contracts of partitions: symbols, ranges, strides, mutation."""

import pytest
import torch
from torch.export import Dim

from pteron.backends.aoti.contract import UNBOUNDED, contract_of
from pteron.backends.aoti.contract import Dim as ContractDim


class Pairs(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        pairs = torch.cat([x, y], 0)
        return pairs, pairs.transpose(0, 1), (x.flatten().sum(), x.flatten())


def exported(**sizes: Dim) -> torch.export.ExportedProgram:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    shapes = ({0: sizes["batch"]}, {0: sizes["batch"]})
    return torch.export.export(Pairs(), (x, y), dynamic_shapes=shapes)


def test_equal_dimensions_share_a_symbol_and_sums_are_affine() -> None:
    inputs, outputs, conditions = contract_of(exported(batch=Dim("batch", min=2, max=8)))
    batch = ContractDim(2, 8, 0)
    fixed = ContractDim(4, 4)
    assert conditions == ()
    assert [item.dims for item in inputs] == [(batch, fixed), (batch, fixed)]
    assert outputs[0].dims == (ContractDim(4, 16, 0, scale=2), fixed)
    assert outputs[1].dims == (fixed, ContractDim(4, 16, 0, scale=2))
    assert outputs[2].dims == ()
    assert outputs[3].dims == (ContractDim(8, 32, 0, scale=4),)


def test_strides_are_those_of_the_largest_shape() -> None:
    _, outputs, _ = contract_of(exported(batch=Dim("batch", min=2, max=8)))
    assert outputs[0].strides == (4, 1)
    assert outputs[1].strides == (1, 4)


def test_an_open_range_says_so() -> None:
    inputs, _, _ = contract_of(exported(batch=Dim("batch", min=2)))
    assert inputs[0].dims[0].max >= UNBOUNDED // 2


def test_offsets_are_kept() -> None:
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.pad(x, (0, 0, 1, 2))

    size = Dim("size", min=1, max=5)
    program = torch.export.export(Shifted(), (torch.randn(3, 4),), dynamic_shapes=({0: size},))
    _, (output,), _ = contract_of(program)
    assert output.dims[0] == ContractDim(4, 8, 0, scale=1, offset=3)


def test_a_product_of_two_sizes_is_free_within_its_bounds() -> None:
    class Flat(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten() * 2

    shapes = ({0: Dim("a", min=2, max=3), 1: Dim("b", min=2, max=5)},)
    program = torch.export.export(Flat(), (torch.randn(3, 4),), dynamic_shapes=shapes)
    (given,), (output,), _ = contract_of(program)
    assert [dim.symbol for dim in given.dims] == [0, 1]
    assert output.dims == (ContractDim(4, 15),)


def test_an_input_that_is_written_is_marked() -> None:
    class Counter(torch.nn.Module):
        def forward(self, state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            state.add_(x)
            return state * 2

    program = torch.export.export(Counter(), (torch.zeros(3), torch.ones(3)))
    inputs, outputs, _ = contract_of(program.run_decompositions())
    assert [item.mutated for item in inputs] == [True, False]
    assert len(outputs) == 1


def test_a_size_is_an_output_without_dimensions() -> None:
    class Size(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.shape[0], x + 1

    program = torch.export.export(
        Size(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=9)},)
    )
    _, (size, _), _ = contract_of(program)
    assert (size.dtype, size.dims) == (torch.int64, ())


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize(
    "size, example, expected",
    [
        (4 * Dim("h", min=1), 8, (4, UNBOUNDED, 4, 0)),
        (4 * Dim("h", min=0, max=9), 8, (0, 36, 4, 0)),
        (4 * Dim("h", min=2, max=9), 8, (8, 36, 4, 0)),
        (4 * Dim("h", min=3, max=9), 12, (12, 36, 4, 0)),
        (Dim("h", min=1, max=9) + 1, 8, (2, 10, 1, 1)),
        (4 * Dim("h", min=1, max=9) - 3, 9, (1, 33, 4, -3)),
        (2 * Dim("h", max=9) + 1, 9, (1, 19, 2, 1)),
    ],
)
def test_a_dimension_that_is_made_of_another(
    size: Dim, example: int, expected: tuple[int, ...]
) -> None:
    program = torch.export.export(Twice(), (torch.randn(example),), dynamic_shapes=({0: size},))
    least, most, scale, offset = expected
    for contracts in contract_of(program)[:2]:
        (dim,) = contracts[0].dims
        assert dim == ContractDim(least, min(most, dim.max), 0, scale, offset)
        assert dim.max >= min(most, UNBOUNDED // 2)


def test_other_expressions_are_conditions() -> None:
    class Grid(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor):
            return x.reshape(a.shape[0], b.shape[0]) * a[:, None] * b, a[::2] * c

    args = tuple(torch.randn(size) for size in (8, 6, 4, 48))
    shapes = tuple({0: Dim.AUTO(max=64)} for _ in args)
    inputs, _, conditions = contract_of(torch.export.export(Grid(), args, dynamic_shapes=shapes))
    assert [item.dims[0].symbol for item in inputs] == [0, 1, 2, 3]
    texts = {item.text: item for item in conditions}
    product = texts["x.size(0) == a.size(0)*b.size(0)"]
    assert (product.left, product.relation) == ((1, 3), "==")
    assert product.right in [(1, 0, 1, 1, 3), (1, 1, 1, 0, 3)]
    assert len(texts) == 1  # the guard of c is checked before
