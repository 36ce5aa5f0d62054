"""The decoder says its text, from C++ and from Python."""

import os
import subprocess

import pytest

_END = " was a program that lived in a file. It had no libraries to speak of and only one wish:"


@pytest.mark.parametrize("how", ["FROM_CPP", "FROM_PYTHON"])
def test_says_its_text(how: str) -> None:
    program = os.path.abspath(os.environ["PROGRAM"])
    command = [os.path.abspath(os.environ[how]), program]
    for beginning in ("Once there", "Once there was a pr"):
        done = subprocess.run([*command, beginning], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Once there" + _END)
        assert done.stdout.endswith("and remembered them all.\n")
    assert os.path.getsize(program) < 1_900_000, "each weight is stored once"


def test_says_what_is_wrong() -> None:
    command = [os.path.abspath(os.environ["FROM_CPP"]), os.path.abspath(os.environ["PROGRAM"])]
    done = subprocess.run([*command, "x" * 129], capture_output=True, text=True)
    assert done.returncode == 1
    assert "input 0 (ids): dimension 1 is 129, expected at most 128" in done.stderr
