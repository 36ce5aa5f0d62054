"""Processes that take turns."""

import pathlib
import sys

import pytest

from pteron.command.contender import Contender

_PROGRAM = """
import sys
from pteron.command.contender import serve

if "--broken" in sys.argv:
    sys.exit("no such model")
calls = []

def call():
    print("what a library prints")
    calls.append(0)
    if len(calls) > 8:
        sys.exit(3)
    return len(calls)

serve(lambda: call, lambda first: {"first": first})
"""


@pytest.fixture(autouse=True)
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `answers`."""
    (tmp_path / "answers.py").write_text(_PROGRAM)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])


def test_calls_are_timed() -> None:
    with Contender("ours", "answers") as contender:
        begun = contender.begun()
        assert begun["first"] == 1
        assert begun["load_s"] >= 0
        assert begun["first_call_s"] >= 0
        answer = contender.calls(3)
        assert len(answer["seconds"]) == 3
        assert answer["threads"] == 1
        assert answer["memory"] > 1 << 20
        with pytest.raises(RuntimeError, match="ours ends with 3"):
            contender.calls(5)


def test_a_program_that_cannot_start_is_an_error() -> None:
    with (
        Contender("ours", "answers", "--broken") as contender,
        pytest.raises(RuntimeError, match="ours ends with 1: no such model"),
    ):
        contender.begun()


def test_the_process_ends_with_the_block() -> None:
    with Contender("ours", "answers") as contender:
        contender.begun()
    assert contender.process.returncode is not None
