"""Random values have the mean and deviation of those of torch's operators, and their dtype."""

import math

import pytest
import torch

from pteron.exir import to_edge
from pteron.exir.operators.random_values import random_values

aten = torch.ops.aten
TABLE = random_values()
COUNT = 100_000
MEAN = torch.tensor([[1.0], [-2.0]])
DEVIATION = torch.full((COUNT,), 3.0)
CHANCES = torch.tensor([[0.2], [0.9]])
BAD_WEIGHTS = ([0.0, 0.0], [1.0, -0.1], [1.0, math.nan], [1.0, math.inf])


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None].expand(-1, COUNT)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        (aten.normal_functional.default, (torch.empty(2, COUNT), -1.0, 2.0)),
        (aten.normal.Tensor_Tensor, (MEAN, DEVIATION)),
        (aten.normal.Tensor_float, (MEAN.expand(2, COUNT), 3.0)),
        (aten.normal.float_Tensor, (2.0, DEVIATION.expand(2, COUNT))),
        (aten.uniform.default, (torch.empty(2, COUNT, dtype=torch.float64), -3.0, 1.0)),
        (aten.bernoulli.p, (torch.empty(2, COUNT, dtype=torch.int64), 0.25)),
        (aten.bernoulli.default, (CHANCES.expand(2, COUNT),)),
        (aten.bernoulli.Tensor, (torch.empty(2, COUNT), CHANCES)),
        (aten._standard_gamma.default, (rows(0.3, 4.0),)),
        (aten._standard_gamma.default, (rows(1.0, 900.0).double(),)),
        (aten.poisson.default, (rows(0.0, 0.5),)),
        (aten.poisson.default, (rows(9.9, 10.1),)),
        (aten.poisson.default, (rows(40.0, 1e4),)),
        (aten.binomial.default, (rows(0.0, 7.0), CHANCES)),
        (aten.binomial.default, (rows(200.0, 3000.0), CHANCES)),
        (aten.binomial.default, (rows(9.0, 9.0), torch.tensor([[0.0], [1.0]]))),
        (aten.multinomial.default, (torch.tensor([[1.0, 0, 2], [0, 5, 0.1]]), COUNT, True)),
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


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        *(
            (aten.multinomial.default, (torch.tensor([[1.0, 2.0], w]), 1, True))
            for w in BAD_WEIGHTS
        ),
        *((aten.multinomial.default, (torch.tensor([1.0, *w]), 2)) for w in BAD_WEIGHTS[1:]),
        *((aten.bernoulli.default, (torch.tensor([0.5, p]),)) for p in (-0.1, 1.1, math.nan)),
        (aten.bernoulli.Tensor, (torch.empty(2), torch.tensor([0.5, 1.1]))),
        *((aten.normal.float_Tensor, (0.0, torch.tensor([1.0, s]))) for s in (-0.1, math.nan)),
        (aten.normal.Tensor_Tensor, (torch.zeros(2), torch.tensor([1.0, -1.0]))),
        *((aten.poisson.default, (torch.tensor([1.0, r]),)) for r in (-0.1, math.nan)),
    ],
    ids=str,
)
def test_what_torch_refuses_is_refused(
    op: torch._ops.OpOverload, arguments: tuple[object, ...]
) -> None:
    for function in (op, TABLE[op]):
        with pytest.raises(RuntimeError):
            function(*arguments)


@pytest.mark.parametrize("count", [1, 2])
def test_choices_without_replacement(count: int) -> None:
    torch.manual_seed(0)
    weights = torch.tensor([0.0, 1, 2, 0, 5]).expand(COUNT, 5)
    drawn = [
        op(weights, count) for op in (TABLE[aten.multinomial.default], aten.multinomial.default)
    ]
    found, expected = (
        (pairs @ torch.tensor([5, 1])[-count:]).bincount(minlength=25) / COUNT for pairs in drawn
    )
    assert drawn[0].dtype == torch.int64 and drawn[0].shape == (COUNT, count)
    assert ((found > 0) == (expected > 0)).all()
    assert ((found - expected).abs() <= 5 * (2 * expected / COUNT).sqrt()).all()


@pytest.mark.parametrize("alpha", [[0.1, 2.0, 30.0], [1e-3, 1e-3, 1e-3]])
def test_shares(alpha: list[float]) -> None:
    torch.manual_seed(0)
    given = torch.tensor(alpha).expand(COUNT, 3)
    found, expected = TABLE[aten._sample_dirichlet.default](given), torch._sample_dirichlet(given)
    assert torch.allclose(found.sum(1), torch.ones(COUNT)) and found.dtype == expected.dtype
    for power in (1, 2):
        limit = 5 * (2 / COUNT) ** 0.5 * (expected**power).std(0)
        assert (((found**power).mean(0) - (expected**power).mean(0)).abs() <= limit).all()


def test_generators_are_not_asked() -> None:
    generator = torch.Generator()

    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                noise = torch.randn(x.shape, generator=generator)
            return x + noise + torch.empty_like(x).normal_(generator=generator)

    program = torch.export.export(Noise(), (torch.zeros(2, 3),))
    edge = to_edge(program).exported_program()
    assert [node.name for node in edge.graph.find_nodes(op="placeholder")] == ["x"]
    assert not any("generator" in str((n.target, n.kwargs)) for n in edge.graph.nodes)
    assert edge.module()(torch.zeros(2, 3)).std() > 0


def test_dynamic_sizes_are_exported() -> None:
    class Draws(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.binomial(x, x) + torch.distributions.Dirichlet(x, False).rsample()

    dynamic = {0: torch.export.Dim("batch", max=8)}
    program = torch.export.export(Draws(), (torch.rand(3, 4),), dynamic_shapes=(dynamic,))
    assert to_edge(program).exported_program().module()(torch.rand(5, 4)).shape == (5, 4)
