"""Programs that take turns."""

import pathlib
import sys

import pytest

from examples.quickstart.contender import Contender

_PROGRAM = """
import sys
from examples.quickstart.contender import serve

if "--broken" in sys.argv:
    sys.exit(3)
runs = []
serve({"count": lambda: runs.append(0), "fail": lambda: sys.exit(len(runs))})
"""


@pytest.fixture(autouse=True)
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `answers` beside the quickstart's own."""
    folder = tmp_path / "examples" / "quickstart"
    folder.mkdir(parents=True)
    (folder / "answers.py").write_text(_PROGRAM)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])


def test_each_line_is_one_timed_run() -> None:
    with Contender("answers") as contender:
        assert all(contender.run("count") >= 0 for _ in range(3))
        with pytest.raises(SystemExit, match="answers ended with status 3"):
            contender.run("fail")


def test_a_program_that_cannot_start_is_an_error() -> None:
    with Contender("answers", "--broken") as contender, pytest.raises(SystemExit, match="status 3"):
        contender.run("count")


def test_the_process_ends_with_the_block() -> None:
    with Contender("answers") as contender:
        contender.run("count")
    assert contender._process.returncode is not None
