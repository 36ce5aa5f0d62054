"""The C++ example does what it says."""

import os
import pathlib
import subprocess

from pteron.runtime.tests.program_builder import copy_program

_RUN_MODEL = str(pathlib.Path(os.environ["RUN_MODEL"]).resolve())


def test_prints_the_output(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(copy_program())
    result = subprocess.run([_RUN_MODEL, path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "float32[2, 3]: 1 1 1 1 1 1\n"


def test_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    result = subprocess.run([_RUN_MODEL], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert "model.pte" in result.stderr
