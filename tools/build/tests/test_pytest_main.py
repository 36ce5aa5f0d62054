"""What pytest_test makes of Bazel's test environment, on a module of four tests."""

import os
import pathlib
import subprocess
import sys

import pytest

_MAIN = pathlib.Path("tools/build/pytest_main.py").absolute()
_MODULE = """
import os, pathlib

def test_apple(): pass
def test_pear(): pass
def test_home(tmp_path):
    assert pathlib.Path.home().is_relative_to(os.environ["TEST_TMPDIR"])
    assert tmp_path.is_relative_to(os.environ["TEST_TMPDIR"])
    assert not [name for name in os.environ if name.startswith("XDG_")]
def test_plum(): assert "BREAK" not in os.environ
"""


def run(folder: pathlib.Path, **environment: str) -> tuple[int, str]:
    """Exit status and output of pytest_main over the module, as Bazel would start it."""
    (folder / "test_fruit.py").write_text(_MODULE, encoding="utf-8")
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    bazel = {name for name in os.environ if name.startswith(("TEST", "XML_", "XDG_"))}
    inherited = {name: value for name, value in os.environ.items() if name not in bazel}
    inherited.update(TEST_TMPDIR=str(scratch), PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, str(_MAIN), "test_fruit.py", "-vv"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**inherited, **environment},
    )
    return done.returncode, done.stdout + done.stderr


def passed(output: str) -> set[str]:
    """The tests that passed."""
    lines = [line for line in output.splitlines() if " PASSED" in line]
    return {line.split("::")[1].split()[0] for line in lines}


ALL = {"test_apple", "test_pear", "test_home", "test_plum"}


def test_runs_everything_in_a_home_of_its_own(tmp_path: pathlib.Path) -> None:
    status, output = run(tmp_path, XDG_CACHE_HOME="/nowhere")
    assert (status, passed(output)) == (0, ALL), output


def test_a_failure_fails_and_the_others_still_run(tmp_path: pathlib.Path) -> None:
    status, output = run(tmp_path, BREAK="1")
    assert (status, passed(output)) == (1, ALL - {"test_plum"}), output


def test_fail_fast_stops_at_the_first(tmp_path: pathlib.Path) -> None:
    reverse = "def pytest_collection_modifyitems(items): items.reverse()"
    (tmp_path / "conftest.py").write_text(reverse, encoding="utf-8")
    status, output = run(tmp_path, BREAK="1", TESTBRIDGE_TEST_RUNNER_FAIL_FAST="1")
    assert (status, passed(output)) == (1, set()), output


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("pear or plum", {"test_pear", "test_plum"}), ("not apple", ALL - {"test_apple"})],
)
def test_filter(tmp_path: pathlib.Path, expression: str, expected: set[str]) -> None:
    status, output = run(tmp_path, TESTBRIDGE_TEST_ONLY=expression)
    assert (status, passed(output)) == (0, expected), output


def test_a_filter_may_leave_nothing(tmp_path: pathlib.Path) -> None:
    status, output = run(tmp_path, TESTBRIDGE_TEST_ONLY="grape")
    assert (status, passed(output)) == (0, set()), output


def test_shards_share_the_tests(tmp_path: pathlib.Path) -> None:
    told = tmp_path / "told"
    found: list[str] = []
    for index in range(3):
        told.unlink(missing_ok=True)
        shard = {"TEST_TOTAL_SHARDS": "3", "TEST_SHARD_INDEX": str(index)}
        status, output = run(tmp_path, **shard, TEST_SHARD_STATUS_FILE=str(told))
        assert status == 0, output
        assert told.exists(), "Bazel has to be told that sharding is understood"
        found += passed(output)
    assert sorted(found) == sorted(ALL)


def test_writes_the_report(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.xml"
    run(tmp_path, BREAK="1", XML_OUTPUT_FILE=str(report))
    text = report.read_text(encoding="utf-8")
    assert 'tests="4"' in text and 'failures="1"' in text
