"""Random modules of every family: lowered with the default options and with others, run, equal to
eager.

`run.py` does the same for thousands. A group that fails names its seeds; see them one by one with
`tools/bazel run //tests/random -- --output=FOLDER --seeds=7:8 --together=1`.
"""

import functools
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from pteron.backends.aoti.inductor import patches
from pteron.backends.cpu import isa
from tests.models.random_modules import FAMILIES
from tests.random.configurations import configurations
from tests.random.group import Outcome, run_again
from tests.random.workers import run_task

_DEFAULT, *_OTHERS = configurations("cpu")  # the first is what the default options amount to
#: Of the default options. Together they have every family.
_GROUPS = (
    tuple(range(10)),
    # From 70 on some that were wrong once: eight bits in a branch, sums of what is in half
    # precision, `atan2` of numbers near zero, batches of another number than in the example, what
    # is assigned under a mask after a view, and convolutions of permuted weights.
    (11, 23, 30, 33, 69, 70, 299, 530, 986, 1016, 1359),
)


#: Programs are lowered once, for all tests.
_FOLDER = tempfile.TemporaryDirectory(prefix="pteron-random-")

_of_each_group = pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((_DEFAULT, seeds) for seeds in _GROUPS),
        *((name, tuple(range(4 * i, 4 * i + 4))) for i, name in enumerate(_OTHERS)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}-{value[-1]}",
)


def program(name: str, seeds: tuple[int, ...]) -> Path:
    return Path(_FOLDER.name, f"{name}-{seeds[0]}.pte")


@functools.cache
def run(name: str, *seeds: int) -> Outcome:
    options = configurations("cpu")[name].options
    if not isa.level(options.isa).features <= isa.machine_features():
        pytest.skip(f"this machine does not run {options.isa}")
    return run_task(("cpu", name, seeds), program(name, seeds))


@_of_each_group
def test_random_modules(name: str, seeds: tuple[int, ...]) -> None:
    outcome = run(name, *seeds)
    assert not outcome.errors, {
        seed: (error, outcome.families.get(seed)) for seed, error in outcome.errors.items()
    }
    assert outcome.shims


@pytest.fixture(scope="module", params=["begin", "end"])
def guarded(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    """A process whose models have memory next to an inaccessible page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PTERON_GUARD_PAGES", request.param)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield pool


@_of_each_group
def test_no_access_is_out_of_bounds(
    guarded: ProcessPoolExecutor, name: str, seeds: tuple[int, ...]
) -> None:
    """It would end the process."""
    run(name, *seeds)
    assert guarded.submit(run_again, program(name, seeds), seeds).result() == {}


def test_every_family_is_among_them() -> None:
    outcomes = [run(_DEFAULT, *seeds) for seeds in _GROUPS]
    drawn = {family for outcome in outcomes for of in outcome.families.values() for family in of}
    assert drawn == {family.__name__ for family in FAMILIES}


def test_bugs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of Inductor that `repairs` fixes otherwise."""
    monkeypatch.delitem(patches.REPAIRS, "fix_packed_weight_storage_offset")
    assert run(_DEFAULT, 2).errors[2].startswith("VerificationError")
