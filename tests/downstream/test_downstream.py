"""A workspace that depends on this module builds C++, CUDA and Python against it.

Its first build runs beside decoys of a CUDA installation; a second one, in another output base and
without them, gives the same bytes. A clone shares its cache, and lowers nothing again.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.downstream.cache_server import CacheServer
from tests.downstream.nested_bazel import NestedBazel

# In generated packages; each a file, a weight and a program of its own.
_MODELS = 20
_MODEL = """
import torch

class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.full((4,), {index}.0))

    def forward(self, x):
        return {result}

def build():
    return Shift().eval(), (torch.ones(4),)
"""
_PROGRAM = """
pteron_program(
    name = "shift_{index}",
    model = "shift_{index}.py",
    options = {{"cpu.isa": "x86-64-v3"}},
)
"""

# Lowering is said to take two cores, and mostly takes one.
_TWO_AT_ONCE = ("--local_resources=cpu=4", "--jobs=2")

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
    models = folder / "models"
    models.mkdir()
    rules = ['load("@executorch//exir:defs.bzl", "pteron_program")\n']
    for index in range(_MODELS):
        # To compile code takes a quarter of a minute; most programs return the weight as it is.
        result = "x + self.shift" if index == 0 else "self.shift"
        text = _MODEL.format(index=index, result=result)
        (models / f"shift_{index}.py").write_text(text, encoding="utf-8")
        rules.append(_PROGRAM.format(index=index))
    (models / "BUILD.bazel").write_text("".join(rules), encoding="utf-8")
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
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CacheServer]:
    with CacheServer(tmp_path_factory.mktemp("cache") / "files") as server:
        yield server


@pytest.fixture(scope="module")
def bazel(
    workspace: Path,
    cache: CacheServer,
    poison: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[NestedBazel]:
    output_base = tmp_path_factory.mktemp("poisoned") / "output"
    with NestedBazel(workspace, output_base, cache.url, **poison) as nested:
        yield nested


@pytest.fixture(scope="module")
def built(bazel: NestedBazel) -> NestedBazel:
    bazel.run("build", *_TWO_AT_ONCE, "//...")
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


def _lowered(log: Path) -> tuple[set[str], set[str]]:
    """Programs that came from the cache, and programs that were lowered, as Bazel's log has it."""
    text = log.read_text(encoding="utf-8").replace("\n}{\n", "\n},{\n")
    cached: set[str] = set()
    made: set[str] = set()
    for spawn in json.loads(f"[{text}]"):
        if spawn["mnemonic"] == "PteronProgram":
            program = spawn["targetLabel"].removeprefix("//").replace(":", "/").lstrip("/")
            (cached if spawn["cacheHit"] else made).add(program)
    return cached, made


def _programs(bazel: NestedBazel) -> dict[str, bytes]:
    """Bytes of the files, by package and name."""
    folder = bazel.output("")
    return {
        str(path.relative_to(folder).with_suffix("")): path.read_bytes()
        for path in folder.rglob("*.pte")
        if ".runfiles" not in str(path)
    }


def test_programs_come_from_a_cache_and_are_the_same_everywhere(
    built: NestedBazel,
    cache: CacheServer,
    poison: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Another clone, with an output base of its own and the cache of the first."""
    log = tmp_path_factory.mktemp("log") / "log.json"
    clone = tmp_path_factory.mktemp("clone") / "elsewhere"
    shutil.copytree(built.workspace, clone)
    logged = ("build", f"--execution_log_json_file={log}")
    first = _programs(built)
    shared = first.keys() - {"sum_native"}
    assert len(shared) >= _MODELS + 2

    with NestedBazel(clone, built.output_base.parent / "other", cache.url, **poison) as other:
        other.run(*logged, *_TWO_AT_ONCE, "//...")
        assert _lowered(log) == (shared, {"sum_native"})
        second = _programs(other)
        assert {n: second[n] for n in shared} == {n: first[n] for n in shared}
        # What is for this machine alone is not among what others may get.
        files = {path.name for path in (cache.folder / "cas").iterdir()}
        for name, program in second.items():
            assert (hashlib.sha256(program).hexdigest() in files) is (name in shared), name

        anew = {"sum", "sum_cuda"}
        other.run("clean")
        other.run(*logged, *_TWO_AT_ONCE, "--modify_execution_info=PteronProgram=+no-cache", *anew)
        assert _lowered(log) == (set(), anew)
        assert _programs(other) == {name: first[name] for name in anew}


def test_cuda_program(built: NestedBazel) -> None:
    version, *rest = _run(built.output("cuda_program")).splitlines()
    assert version == "cuBLAS 13"
    assert rest in (["added"], ["no CUDA device"])


def test_same_bytes_without_decoys_in_another_output_base(
    built: NestedBazel, workspace: Path, tmp_path: Path
) -> None:
    # Nor with the first one's cache.
    with NestedBazel(workspace, tmp_path / "some" / "other" / "output") as clean:
        clean.run("build", "//:cuda_program")
        for path in ("_objs/add/add.cu.pic.o", "cuda_program"):
            assert clean.output(path).read_bytes() == built.output(path).read_bytes(), path


def test_zip(built: NestedBazel) -> None:
    """The last one: a zip is another configuration of everything."""
    built.run("build", "--build_python_zip", "//:zip_program")
    lines = _run(built.output("zip_program")).splitlines()
    assert lines == ["[] pteron.runtime", "backends exir"]
