"""The C++ example does what it says."""

import os
import pathlib
import subprocess

from pteron.runtime.tests.program_builder import MethodBuilder, build_program, copy_program

_RUN_MODEL = str(pathlib.Path(os.environ["RUN_MODEL"]).resolve())


def test_prints_the_output(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(copy_program())
    result = subprocess.run([_RUN_MODEL, path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "float32[2, 3]: 1 1 1 1 1 1\n"


def test_passes_each_input_its_dtype(tmp_path: pathlib.Path) -> None:
    method = MethodBuilder()
    method.input([4], "int64")
    x, y = method.input([2]), method.planned([2])
    method.clone(x, y)
    method.output(y)
    (tmp_path / "model.pte").write_bytes(build_program(method))
    result = subprocess.run([_RUN_MODEL], cwd=tmp_path, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("float32[2]: 1 1\n", "")


def test_refuses_other_dtypes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.pte").write_bytes(copy_program(dtype="float64"))
    result = subprocess.run([_RUN_MODEL], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert "float64[2, 3]; this example passes tensors of float32 and int64" in result.stderr


def test_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    result = subprocess.run([_RUN_MODEL], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert "model.pte" in result.stderr
