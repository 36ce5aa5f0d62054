"""Compiling a .cu depends on the repository and the host compiler, and on nothing else.

Takes the very action that Bazel runs, lays out its inputs in other folders, and runs it there.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

_ACTIONS = json.loads(Path(os.environ["ACTIONS"]).read_text(encoding="utf-8"))
(_ACTION,) = _ACTIONS["actions"]
_OBJECT = next(output for output in _ACTION["outputs"] if output.endswith(".o"))


def _runfile(path: str) -> Path:
    return Path(_ACTIONS["runfiles"][path]).resolve()


class Execroot:
    """A folder in which the action can run as Bazel runs it."""

    def __init__(self, root: Path):
        self.root = root
        for path in _ACTION["inputs"]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(_runfile(path))
        (root / _OBJECT).parent.mkdir(parents=True)

    def run(self, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_ACTION["argv"], *options],
            cwd=self.root,
            env={**_ACTION["env"], **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def object(self) -> bytes:
        return (self.root / _OBJECT).read_bytes()


def _compiler_folders() -> list[Path]:
    """The folders in which the host compiler looks for headers by itself."""
    compiler = _ACTION["argv"][_ACTION["argv"].index("-ccbin") + 1]
    shown = subprocess.run(
        [compiler, "-E", "-x", "c++", "-v", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        env=_ACTION["env"],
    )
    listing = re.search(
        r"<\.\.\.> search starts here:\n(.*?)End of search", shown.stderr, re.DOTALL
    )
    assert listing
    return [Path(line.strip()).resolve() for line in listing.group(1).splitlines()]


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A CUDA installation that breaks every reader."""
    root = tmp_path / "decoy"
    for name in ("nvcc", "ptxas", "cicc", "fatbinary", "cudafe++"):
        program = root / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\necho 'decoy was run' >&2\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    for name in ("cuda_runtime.h", "cublas_v2.h", "cstddef"):
        header = root / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("#error decoy was included\n", encoding="utf-8")
    return root


def test_environment_has_nothing_of_the_caller() -> None:
    assert set(_ACTION["env"]) == {"PATH", "PWD"}
    compiler = Path(_ACTION["argv"][_ACTION["argv"].index("-ccbin") + 1])
    folders = _ACTION["env"]["PATH"].split(":")
    assert set(folders) <= {str(compiler.parent), "/bin", "/usr/bin"}
    assert not Path(_ACTION["argv"][0]).is_absolute()


def test_same_bytes_wherever_it_runs(tmp_path: Path) -> None:
    expected = _runfile(_OBJECT).read_bytes()
    for root in (tmp_path / "a", tmp_path / "some" / "longer" / "path"):
        execroot = Execroot(root)
        done = execroot.run()
        assert done.returncode == 0, done.stderr
        assert execroot.object() == expected


def test_depends_on_repository_and_compiler_only(tmp_path: Path) -> None:
    execroot = Execroot(tmp_path / "root")
    done = execroot.run("-MD", "-MF", "dependencies.d")
    assert done.returncode == 0, done.stderr
    text = (execroot.root / "dependencies.d").read_text(encoding="utf-8")
    dependencies = text.split(":", maxsplit=1)[1].replace("\\\n", " ").split()
    assert any(path.endswith("/cuda_runtime.h") for path in dependencies)
    assert any(path.endswith("/cublas_v2.h") for path in dependencies)

    declared = [Path(path) for path in _ACTION["inputs"]]
    allowed = [*declared, *_compiler_folders()]
    found = [Path(os.path.normpath(path)) for path in dependencies]
    found = [path.resolve() if path.is_absolute() else path for path in found]
    assert not [path for path in found if not any(map(path.is_relative_to, allowed))]


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_cuda_of_the_machine_is_not_looked_at(tmp_path: Path, decoy: Path, variable: str) -> None:
    execroot = Execroot(tmp_path / "root")
    path = f"{decoy}/bin:{_ACTION['env']['PATH']}"
    done = execroot.run(**{variable: str(decoy), "PATH": path})
    assert done.returncode == 0, done.stderr
    assert execroot.object() == _runfile(_OBJECT).read_bytes()


def test_the_decoy_is_noticed_where_it_is_looked_at(tmp_path: Path, decoy: Path) -> None:
    """CPATH would change the result; only an environment without it keeps it out."""
    done = Execroot(tmp_path / "root").run(CPATH=str(decoy / "include"))
    assert done.returncode != 0
    assert "decoy was included" in done.stderr
