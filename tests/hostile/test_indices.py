"""Tensors of indices that point beside a tensor."""

import pytest

from pteron.runtime import Program
from tests.hostile.agreement import check, lowered
from tests.hostile.guarded import Edge
from tests.hostile.index_cases import CASES
from tests.hostile.together import Case, Together

_TOGETHER = Together(CASES)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return lowered(_TOGETHER, tmp_path_factory.mktemp("hostile") / "model.pte")


@pytest.mark.parametrize("edge", Edge, ids=lambda edge: edge.value)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_eager_or_refused(program: Program, case: Case, edge: Edge) -> None:
    check(program, _TOGETHER, case, edge)
