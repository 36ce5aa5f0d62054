"""Numbers and indices from tensors that point beside a tensor; integers that cannot be divided."""

import functools
from collections.abc import Callable

import pytest

from pteron.runtime import Program
from tests.hostile import division_cases, index_cases, number_cases
from tests.hostile.agreement import check, lowered
from tests.hostile.guarded import Edge
from tests.hostile.together import Case, Together

_TOGETHER = {
    name: Together(module.CASES)
    for name, module in (
        ("divisions", division_cases),
        ("indices", index_cases),
        ("numbers", number_cases),
    )
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    return functools.cache(
        lambda name: lowered(_TOGETHER[name], tmp_path_factory.mktemp(name) / "model.pte")
    )


@pytest.mark.parametrize("edge", Edge, ids=lambda edge: edge.value)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{name}-{case.name}")
        for name, together in _TOGETHER.items()
        for case in together.cases
    ],
)
def test_as_eager_or_refused(
    program: Callable[[str], Program], name: str, case: Case, edge: Edge
) -> None:
    check(program(name), _TOGETHER[name], case, edge)
