"""Models that read a part of a parameter, or one parameter under several names."""

import dataclasses
import functools
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cpu import CpuOptions
from tests.e2e.lowering import Results, lower_together
from tests.models.cases import Case
from tests.models.parameter_views import ATTENTION, OTHERS, PRODUCTS


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """Cases that are lowered together.

    Attributes:
        tolerance: largest error against the same values in double, relative to the largest value.
    """

    name: str
    cases: tuple[Case, ...]
    dtype: torch.dtype = torch.float32
    tolerance: float = 1e-6
    options: CpuOptions = CpuOptions()


PROGRAMS = (
    Program("products", PRODUCTS),
    Program("attention", ATTENTION),
    Program("others", OTHERS),
    Program("bfloat16", PRODUCTS, torch.bfloat16, 2**-7),
    Program("float16", PRODUCTS, torch.float16, 2**-10),
    Program("shared", PRODUCTS + OTHERS, options=CpuOptions(weights="shared")),
    Program("library", PRODUCTS, options=CpuOptions(gemm="library")),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Program], Results]:
    @functools.cache
    def run(program: Program) -> Results:
        path = tmp_path_factory.mktemp(program.name) / "cases.pte"
        return lower_together(program.cases, path, program.options, program.dtype).run()

    return run


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(program, case.name, id=f"{program.name}-{case.name}")
        for program in PROGRAMS
        for case in program.cases
    ],
)
def test_results_are_those_in_double(
    results: Callable[[Program], Results], program: Program, name: str
) -> None:
    results(program).check(name, program.tolerance)
