"""Random values have the mean and deviation of those of torch's operators, and their dtype."""

import pytest
import torch

from pteron.exir.operators.random_values import random_values

aten = torch.ops.aten
TABLE = random_values()
COUNT = 100_000
MEAN = torch.tensor([[1.0], [-2.0]])
DEVIATION = torch.full((COUNT,), 3.0)
CHANCES = torch.tensor([[0.2], [0.9]])


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        (aten.normal_functional.default, (torch.empty(2, COUNT), -1.0, 2.0)),
        (aten.normal.Tensor_Tensor, (MEAN, DEVIATION)),
        (aten.normal.Tensor_float, (MEAN.expand(2, COUNT), 3.0)),
        (aten.normal.float_Tensor, (2.0, DEVIATION.expand(2, COUNT))),
        (aten.uniform.default, (torch.empty(2, COUNT, dtype=torch.float64), -3.0, 1.0)),
        (aten.bernoulli.p, (torch.empty(2, COUNT, dtype=torch.int64), 0.25)),
        (aten.bernoulli.Tensor, (torch.empty(2, COUNT), CHANCES)),
    ],
    ids=str,
)
def test_moments(op: torch._ops.OpOverload, arguments: tuple[object, ...]) -> None:
    torch.manual_seed(0)
    found, expected = TABLE[op](*arguments), op(*arguments)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    a, b = found.double(), expected.double()
    for power in (1, 2, 3):
        x, y = a**power, b**power
        # Of the difference of two means of COUNT values: five deviations.
        limit = 5 * (2 / COUNT) ** 0.5 * y.std(1)
        assert ((x.mean(1) - y.mean(1)).abs() <= limit).all()


def test_generators_are_not_taken() -> None:
    generator = torch.Generator()
    uniform = TABLE[aten.uniform.default]
    assert uniform(torch.empty(2), 0.0, 1.0, generator=generator) is NotImplemented
