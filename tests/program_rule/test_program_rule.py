"""What the rules say: what was left out, and that the device of a program is not there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

_FOLDER = Path("tests/program_rule").absolute()


def _run(program: str, *arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [_FOLDER / program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stderr


def test_it_says_that_nothing_was_compared() -> None:
    code, said = _run("test_sum_metal.sh")
    assert code == 0, said
    assert "method 'forward' was not compared: MetalBackend cannot run here" in said
    assert "SKIPPED: this machine does not run the program." in said


def test_it_says_where_a_file_belongs(tmp_path: Path) -> None:
    code, said = _run(
        "reads_lowering",
        "--model=tests/program_rule/reads.py:build",
        f"--compiler={os.environ['COMPILER']}",
        f"--program={tmp_path / 'reads.pte'}",
        "export",
    )
    assert code == 1, said
    assert 'File "tests/program_rule/reads.py", line 7, in build' in said
    assert "try:  the file in the data of the target" in said


@pytest.mark.parametrize("compiler", ["COMPILER", "DEBIAN"])
def test_a_compiler_that_is_an_input_needs_no_program_on_the_path(
    tmp_path: Path, compiler: str
) -> None:
    """GCC of the machine looks for its assembler there."""
    code, said = _run(
        "sum_lowering",
        "--model=tests/program_rule/add.py:build",
        f"--compiler={os.environ[compiler]}",
        f"--program={tmp_path / 'sum.pte'}",
        "export",
        PATH="/nonexistent",
    )
    assert (code == 0) is (compiler == "DEBIAN"), said
    assert (tmp_path / "sum.pte").exists() is (compiler == "DEBIAN")


def test_a_worker_with_another_compiler_is_refused(tmp_path: Path) -> None:
    """Its program would be in the cache for that of the machine which runs Bazel."""
    compiler = json.loads(Path(os.environ["COMPILER"]).read_text())
    other = tmp_path / "compiler.json"
    for command, found in (
        (compiler["command"], compiler["programs"]["driver"]),
        ("/no/g++", "no"),
    ):
        programs = {**compiler["programs"], "driver": "0" * 64}
        other.write_text(json.dumps({**compiler, "command": command, "programs": programs}))
        code, said = _run(
            "reads_lowering",
            "--model=tests/program_rule/reads.py:build",
            f"--compiler={other}",
            f"--program={tmp_path / 'reads.pte'}",
            "export",
        )
        assert code == 1, said
        assert f"{command} with sha256 {'0' * 64}; found {found}" in said
        assert not (tmp_path / "reads.pte").exists()
