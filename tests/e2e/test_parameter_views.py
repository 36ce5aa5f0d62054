"""Models that read a part of a parameter, or one parameter under several names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from backends.cpu import CpuOptions
from tests.e2e.lowering import flat_outputs, run_together
from tests.models.cases import Case, Together
from tests.models.parameter_views import ATTENTION, OTHERS, PRODUCTS
from tests.models.sample import max_relative_error


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
def results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Program], tuple[Any, ...]]:
    """Of a program: its outputs by case, eager's, and those in double."""

    @functools.cache
    def run(program: Program) -> tuple[Any, ...]:
        together = Together(program.cases, program.dtype)
        path = tmp_path_factory.mktemp(program.name) / "together.pte"
        found = run_together(together, path, program.options)
        with torch.no_grad():
            return found, together(*together.inputs()), together.exact()

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
    results: Callable[[Program], tuple[Any, ...]], program: Program, name: str
) -> None:
    by_case = results(program)
    for found, eager, exact in zip(*(flat_outputs(each[name]) for each in by_case), strict=True):
        assert found.dtype == eager.dtype
        error = max_relative_error(found.double(), exact)
        of_eager = max_relative_error(eager.double(), exact)
        assert error <= program.tolerance, f"relative error {error:.2e}; eager's is {of_eager:.2e}"
