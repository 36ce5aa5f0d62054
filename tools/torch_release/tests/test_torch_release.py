"""The command over small checks and environments made here; no model is lowered."""

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from tools.gpu.stage import Outcome
from tools.torch_release import torch_release
from tools.torch_release.checks import CHECKS, LINEAR, Check

_PASSES = "def test_good(): pass\n"
_FAILS = "def test_bad(): assert 1 == 2, 'the place is gone'\n"


@dataclasses.dataclass(frozen=True)
class _Linear(Check):
    """A Linear that lowers, or not."""

    error: str = ""

    def command(self, python: str) -> tuple[str, ...]:
        return (python, "-c", f"raise SystemExit({self.error!r})" if self.error else "")


def _linear(error: str = "") -> _Linear:
    return _Linear(LINEAR.name, (), "look at the place", False, error)


def _check(folder: Path, name: str, text: str) -> Check:
    module = folder / f"test_{name}.py"
    module.write_text(text, encoding="utf-8")
    return Check(name, (str(module),), f"see to {name}")


def _run(folder: Path, *checks: Check) -> dict[str, Outcome]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("COLUMNS", "300")
        return torch_release.run(sys.executable, checks, folder, 60)


def test_tests_are_counted_and_what_failed_is_told(tmp_path: Path) -> None:
    checks = [
        _linear(),
        _check(tmp_path, "good", _PASSES),
        _check(tmp_path, "bad", _PASSES + _FAILS),
    ]
    outcomes = _run(tmp_path, *checks)
    found = {name: (each.passed, each.failed) for name, each in outcomes.items()}
    assert found == {"linear": (1, 0), "good": (1, 0), "bad": (1, 1)}
    step, said = torch_release.next_steps("", checks, outcomes, tmp_path)
    assert step == f"* bad: see to bad. {tmp_path}/bad.log:"
    assert said.startswith("    FAILED ") and "test_bad - AssertionError: the place is gone" in said


def test_a_release_that_lowers_nothing_is_not_asked_for_more(tmp_path: Path) -> None:
    checks = [_linear("UnsupportedTorch: 9.1 is not known"), _check(tmp_path, "good", _PASSES)]
    outcomes = _run(tmp_path, *checks)
    assert (outcomes["linear"].failed, outcomes["good"].skipped) == (1, 1)
    step, said = torch_release.next_steps("9.1", checks, outcomes, tmp_path)
    assert "look at the place; then add" in step
    assert '"9.1" to SUPPORTED_RELEASES' in step and "run this again" in step
    assert said.strip() == "UnsupportedTorch: 9.1 is not known"
    step, _ = torch_release.next_steps("", checks, outcomes, tmp_path)
    assert "look at the place" in step


def test_an_error_of_several_lines_is_told(tmp_path: Path) -> None:
    error = (
        "Traceback:\n  File 1\nKeyError: 1\n\npteron.x.UnsupportedTorch: differs:\n  a.b\ntry: 2.1"
    )
    outcomes = _run(tmp_path, check := _linear(error))
    _, *said = torch_release.next_steps("", [check], outcomes, tmp_path)
    assert [line.strip() for line in said] == [
        "pteron.x.UnsupportedTorch: differs:",
        "a.b",
        "try: 2.1",
    ]


def test_a_release_that_passes_is_to_be_added_if_it_is_not_known(tmp_path: Path) -> None:
    outcomes = {"linear": Outcome("linear", passed=1)}
    (step,) = torch_release.next_steps("9.1", [_linear()], outcomes, tmp_path)
    assert (
        step == f'* all that ran passes: add "9.1" to SUPPORTED_RELEASES in {torch_release.RELEASE}'
    )
    assert torch_release.next_steps("", [_linear()], outcomes, tmp_path) == [
        "* all that ran passes"
    ]


def test_table() -> None:
    results = {
        "9.1": {"a": Outcome("a", 2, 1, 3, 4.4), "b": Outcome("b", skipped=1)},
        "9.2": {"a": Outcome("a", 6, seconds=5), "b": Outcome("b", failed=1)},
    }
    assert torch_release.table(results).splitlines() == [
        "| check | 9.1 | 9.2 |",
        "| --- | --- | --- |",
        "| a | 1 failed, 2 passed, 3 skipped, 4 s | 6 passed, 5 s |",
        "| b | not run | 1 failed, 0 s |",
    ]


def test_every_check_is_there() -> None:
    for check in CHECKS:
        arguments = check.command("python")
        paths = [argument for argument in arguments if argument.endswith(".py")]
        assert len(paths) == (1 + len(check.tests) if check.tests else 0)
        assert all(Path(path).is_file() for path in paths), paths


def test_known_releases_are_read() -> None:
    text = Path("../_pteron_py/pteron", torch_release.RELEASE).read_text(encoding="utf-8")
    assert "2.13" in torch_release.supported_releases(text)
    annotated = 'SUPPORTED_RELEASES: tuple[str, ...] = (\n    "1.2",\n    "1.3",\n)\nOTHER = (1,)\n'
    assert torch_release.supported_releases(annotated) == ("1.2", "1.3")


def _environment(folder: Path, torch: str) -> str:
    """A virtual environment's Python; `torch` is the module's text."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    lines = f"home = {Path(sys.executable).resolve().parent}\n"
    (folder / "pyvenv.cfg").write_text(lines + "include-system-site-packages = false\n")
    site = folder / "lib/python{}.{}/site-packages".format(*sys.version_info[:2])
    site.mkdir(parents=True)
    if torch:
        (site / "torch.py").write_text(torch, encoding="utf-8")
    return str(folder / "bin/python")


def test_torch_alone_comes_from_the_environment(tmp_path: Path) -> None:
    wheels = [str(tmp_path / name / "site-packages") for name in ("torch", "numpy", "triton")]
    for wheel in wheels:
        Path(wheel, Path(wheel).parent.name).mkdir(parents=True)
    entries = ["/elsewhere", *wheels]
    ours = torch_release.search_path([], True)
    assert ours.endswith(str(Path.cwd()))
    assert torch_release.search_path(entries, True) == ":".join([ours, *wheels])
    assert torch_release.search_path(entries, False) == f"{ours}:{wheels[1]}"


def test_an_environment_that_does_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def refused(python: str, match: str) -> None:
        with pytest.raises(torch_release.UnusableEnvironment, match=match):
            torch_release.find_torch(python)

    good = _environment(tmp_path / "good", "__version__ = '9.1.0'")
    assert torch_release.find_torch(good) == "9.1.0"
    refused(str(tmp_path / "gone"), "gone.*name a virtual environment")
    refused(_environment(tmp_path / "empty", ""), "No module named 'torch'.*install the release")
    refused(_environment(tmp_path / "broken", "raise ImportError('no libcuda')"), "no libcuda")
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    refused(good, r"is Python 3\.\d+ and .* built for 3\.99; .*PTERON_PYTHON")
