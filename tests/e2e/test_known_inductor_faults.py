"""What PyTorch's issues report as wrong results of Inductor comes out right."""

import functools
from collections.abc import Callable

import pytest

from pteron.backends.cpu import CpuOptions
from pteron.backends.cpu.isa import LEVELS, Isa, machine_features
from tests.e2e.lowering import Lowered, Results, lower_together
from tests.models.cases import Case
from tests.models.inductor_faults import OTHERS, PERMUTED_WEIGHT, THREADS, VECTORS

#: Largest error against the same values in double, relative to the largest value.
_TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Lowered]:
    @functools.cache
    def lower(cases: tuple[Case, ...], options: CpuOptions) -> Lowered:
        return lower_together(cases, tmp_path_factory.mktemp("known") / "cases.pte", options)

    return lower


@pytest.fixture(scope="module")
def results(lowered: Callable[..., Lowered]) -> Callable[..., Results]:
    return functools.cache(lambda cases, options: lowered(cases, options).run())


def _names(groups: dict[str, tuple[Case, ...]]) -> pytest.MarkDecorator:
    names = [(cases, case.name) for cases in groups.values() for case in cases]
    return pytest.mark.parametrize(("cases", "name"), names, ids=[name for _, name in names])


@pytest.mark.parametrize("isa", [i for i in LEVELS if i.vector_bits], ids=lambda isa: isa.name)
@_names(VECTORS)
def test_vectors(
    results: Callable[..., Results], isa: Isa, cases: tuple[Case, ...], name: str
) -> None:
    if not isa.features <= machine_features():
        pytest.skip(f"this machine has no {isa.name}")
    results(cases, CpuOptions(isa=isa.name)).check(name, _TOLERANCE)


def test_shared_weights(results: Callable[..., Results]) -> None:
    options = CpuOptions(weights="shared", gemm="library")
    results((PERMUTED_WEIGHT,), options).check(PERMUTED_WEIGHT.name, _TOLERANCE)


@_names(OTHERS)
def test_others(results: Callable[..., Results], cases: tuple[Case, ...], name: str) -> None:
    results(cases, CpuOptions()).check(name, _TOLERANCE)


@pytest.mark.parametrize("num_threads", [1, 3, 4, 64])
@_names({"threads": THREADS})
def test_threads(
    lowered: Callable[..., Lowered], cases: tuple[Case, ...], name: str, num_threads: int
) -> None:
    program = lowered(cases, CpuOptions())
    # How many threads there are decides how sums of 100,000 terms are cut.
    program.run(num_threads=num_threads).check(name, 2.5 * _TOLERANCE)
