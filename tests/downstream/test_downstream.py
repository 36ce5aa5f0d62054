"""A workspace that depends on this module builds C++, CUDA and Python against it.

Its first build runs beside decoys of a CUDA installation; a second one, in another output base and
without them, gives the same bytes.
"""

import importlib.metadata
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.downstream.nested_bazel import NestedBazel

_ENABLED = "--@executorch//third_party/cuda:enabled"


def _module() -> Path:
    """The checkout: a nested Bazel reads of it what it needs."""
    root = Path("MODULE.bazel").resolve().parent
    assert (root / "tests/downstream").is_dir(), f"{root} is not the checkout"
    return root


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("downstream") / "workspace"
    shutil.copytree("tests/downstream/workspace", folder, copy_function=shutil.copyfile)
    for copied in (folder, *folder.rglob("*")):
        copied.chmod(copied.stat().st_mode | stat.S_IWUSR)  # the checkout may be read-only
    torch = "cpu" if importlib.metadata.version("torch").endswith("+cpu") else "cuda"
    with open(folder / ".bazelrc", "a", encoding="utf-8") as rc:
        rc.write(f'common "--override_module=pteron={_module()}"\n')
        rc.write(f"common --repo_env=PTERON_TORCH={torch}\n")
    return folder


@pytest.fixture(scope="module")
def decoys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA installation that breaks whoever looks at it."""
    root = tmp_path_factory.mktemp("decoys")
    for name in ("nvcc", "ptxas", "cicc", "fatbinary", "cudafe++"):
        tool = root / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\necho 'decoy was run' >&2\nexit 1\n", encoding="utf-8")
        tool.chmod(0o755)
    for name in ("cuda_runtime.h", "cublas_v2.h"):
        header = root / "include" / name
        header.parent.mkdir(exist_ok=True)
        header.write_text("#error decoy was included\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def poison(decoys: Path) -> dict[str, str]:
    """An environment in which the decoys would be found."""
    return {
        "CUDA_HOME": str(decoys),
        "CUDA_PATH": str(decoys),
        "CPATH": str(decoys / "include"),
        "PATH": f"{decoys}/bin:{os.environ['PATH']}",
    }


@pytest.fixture(scope="module")
def bazel(
    workspace: Path, poison: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NestedBazel]:
    output_base = tmp_path_factory.mktemp("poisoned") / "output"
    with NestedBazel(workspace, output_base, **poison) as nested:
        yield nested


@pytest.fixture(scope="module")
def built(bazel: NestedBazel) -> NestedBazel:
    bazel.run("build", "//...")
    return bazel


def _run(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_of_cuda_is_fetched_when_it_is_off(bazel: NestedBazel) -> None:
    """Runs before the first build (in the order of this file)."""
    said = bazel.run("build", f"{_ENABLED}=false", "--nobuild", "--show_result=9", "//...")
    fetched = {path.name for path in (bazel.output_base / "external").iterdir() if path.is_dir()}
    assert any(name.endswith("pypi_pybind11") for name in fetched), said
    assert not [name for name in fetched if "cuda_" in name]


def test_lowered_and_run_by_python(built: NestedBazel, tmp_path: Path) -> None:
    """Beside files and packages of the workspace that have names of ours."""
    lines = _run(built.output("python_program"), tmp_path / "model.pte").splitlines()
    assert lines == ["2.0 4.0 NotFound", "backends exir runtime tests tools"]


def test_lowered_by_the_build_and_run_by_cpp(built: NestedBazel) -> None:
    lines = _run(built.output("cpp_program"), built.output("sum.pte")).splitlines()
    assert lines == ["runtime/core/error.h of this workspace", "2 4"]
    built.run("test", "//:test_sum")


def test_a_program_that_cannot_be_built_says_why_and_where(built: NestedBazel) -> None:
    said = built.run(
        "build", "--keep_going", "//:raises", "//:no_function", "//:no_option", fails=True
    )
    text = (built.workspace / "BUILD.bazel").read_text(encoding="utf-8")
    for target, message in {
        "raises": 'File "wrong.py", line 5, in build\n',
        "no_function": "there is no function 'biuld'; did you mean 'build'?",
        "no_option": "there is no option of cpu 'wieghts'; did you mean 'weights'?",
    }.items():
        line = text[: text.index(f'"{target}"')].count("\n")
        assert f"{built.workspace}/BUILD.bazel:{line}:" in said
        assert message in said


def test_programs_come_from_a_cache_and_are_the_same_everywhere(
    built: NestedBazel, poison: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another clone, with an output base of its own and the cache of the first."""
    log = tmp_path_factory.mktemp("log") / "log.json"
    clone = tmp_path_factory.mktemp("clone") / "elsewhere"
    shutil.copytree(built.workspace, clone)

    def lower(*options: str) -> tuple[bytes, bool]:
        other.run("clean")
        other.run("build", f"--execution_log_json_file={log}", *options, "//:sum")
        spawns = log.read_text(encoding="utf-8").replace(" ", "").split("\n}{\n")
        (spawn,) = [spawn for spawn in spawns if '"mnemonic":"PteronProgram"' in spawn]
        return other.output("sum.pte").read_bytes(), '"cacheHit":true' in spawn

    expected = built.output("sum.pte").read_bytes()
    with NestedBazel(clone, built.output_base.parent / "other", **poison) as other:
        assert lower() == (expected, True)
        anew = "--modify_execution_info=PteronProgram=+no-cache"
        assert lower(anew) == (expected, False)


def test_cuda_program(built: NestedBazel) -> None:
    version, *rest = _run(built.output("cuda_program")).splitlines()
    assert version == "cuBLAS 13"
    assert rest in (["added"], ["no CUDA device"])


def test_same_bytes_without_decoys_in_another_output_base(
    built: NestedBazel, workspace: Path, tmp_path: Path
) -> None:
    # Nor with the first one's cache, which is beside its output base.
    with NestedBazel(workspace, tmp_path / "some" / "other" / "output") as clean:
        clean.run("build", "//:cuda_program")
        for path in ("_objs/add/add.cu.pic.o", "cuda_program"):
            assert clean.output(path).read_bytes() == built.output(path).read_bytes(), path


def test_zip(built: NestedBazel) -> None:
    """The last one: a zip is another configuration of everything."""
    built.run("build", "--build_python_zip", "//:zip_program")
    lines = _run(built.output("zip_program")).splitlines()
    assert lines == ["[] pteron.runtime", "backends exir"]
