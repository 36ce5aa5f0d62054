"""Processes that take turns."""

import pathlib
import sys

import pytest

from pteron.command.contender import Contender, by_turns, text_table

_PROGRAM = """
import sys
from pteron.command.contender import serve

if "--broken" in sys.argv:
    sys.exit("no such model")
calls = []

def call():
    print("what a library prints")
    calls.append(0)
    if len(calls) > 14:
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
            contender.calls(12)


def test_callers_at_the_same_time_and_pauses() -> None:
    with Contender("ours", "answers") as contender:
        contender.begun()
        answer = contender.calls(2, callers=3, pause_s=0.05)
        assert len(answer["seconds"]) == 6
        assert 0.05 < answer["wall_s"]
        assert max(answer["seconds"]) < 0.05  # the pause is not in it


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


def test_as_many_calls_as_a_time_has() -> None:
    with Contender("ours", "answers") as contender:
        contender.begun()
        assert contender.calls_in(0) == 1
        assert contender.calls_in(10) > 10


def test_ways_take_turns_and_every_other_in_reverse() -> None:
    seen: list[str] = []

    def way(name: str) -> int:
        seen.append(name)
        return len(seen)

    found = by_turns({"a": lambda: way("a"), "b": lambda: way("b")}, turns=3)
    assert "".join(seen) == "abbaab"
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_columns_of_a_table_are_as_wide_as_their_cells() -> None:
    rows: list[list[str | float | None]] = [
        ["way", "ms", "error"],
        ["ours", 1.23456, 1e-6],
        ["another", 1234.5, None],
    ]
    assert text_table(rows).splitlines() == [
        "way         ms error",
        "ours     1.235 1e-06",
        "another   1234     -",
    ]
    assert text_table([["a", "b"]], least=4) == "a      b"
    assert text_table([["a", "b"], ["c", "long"]], left=2) == "a b    \nc long "
