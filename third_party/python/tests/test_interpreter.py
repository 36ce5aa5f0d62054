"""The probe of an interpreter, and the private one that the build runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = "third_party/python/interpreter.py"


def _run(python: str | Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [python, _PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _base() -> str:
    return json.loads(Path(os.environ["LOCAL_PYTHON"]).read_text(encoding="utf-8"))["executable"]


def test_probe_of_a_suitable_interpreter() -> None:
    facts = json.loads(_run(_base(), "probe"))
    assert facts["executable"] == os.path.realpath(_base())
    assert facts["has_headers"]
    assert facts["pip"]
    assert facts["implementation"] == "cpython"
    assert facts["is_free_threaded"] is False
    assert not facts["is_virtual"]


def test_probe_of_a_virtual_environment_names_the_interpreter_behind_it() -> None:
    facts = json.loads(_run(sys.executable, "probe"))
    assert facts["is_virtual"]
    assert facts["executable"] == os.path.realpath(_base())
    assert facts["pip"] is None


def test_makes_one_directory_for_one_interpreter(tmp_path: Path) -> None:
    command = [_base(), _PROGRAM, "make", str(tmp_path / "python")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    made = {process.communicate()[0] for process in processes}
    assert len(made) == 1
    directory = Path(made.pop().strip())
    assert list(directory.parent.iterdir()) == [directory]
    shown = subprocess.run(
        [directory / "bin/python3", "-c", "import sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == str(directory)
