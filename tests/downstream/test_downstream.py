"""A workspace that depends on this module builds C++, CUDA and Python against it.

Its first build runs beside decoys of a CUDA installation. A clone in another place, without them,
shares its cache, compiles and lowers nothing; what it rebuilds has the same bytes.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pteron.runtime import Runtime
from tests.downstream.build_farm import BuildFarm
from tests.downstream.cache_server import CacheServer
from tests.downstream.nested_bazel import NestedBazel

# Programs besides those of the workspace: so many of the models in models/models.py. For all of
# them, --test_env=MODELS=20, which takes some minutes more.
_MODELS = int(os.environ.get("MODELS", "1"))
_PROGRAM = """
pteron_program(
    name = "{function}",
    function = "{function}",
    model = "models.py",
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
    release, _, local = importlib.metadata.version("torch").partition("+")
    torch = f"cpu-{release}" if local == "cpu" else f"cuda-{release}"
    models = folder / "models"
    functions = re.findall(
        r"^def ([a-z]\w*)", (models / "models.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    rules = [_PROGRAM.format(function=function) for function in functions[:_MODELS]]
    assert len(rules) == _MODELS
    (models / "BUILD.bazel").write_text(
        'load("@executorch//exir:defs.bzl", "pteron_program")\n' + "".join(rules), encoding="utf-8"
    )
    with open(folder / ".bazelrc", "a", encoding="utf-8") as rc:
        rc.write(f'common "--override_module=pteron={_module()}"\n')
        rc.write(f"common --repo_env=PTERON_TORCH={torch}\n")
        # The C++ toolchain writes down where compilers look, and caches are for one such list.
        rc.write("common --repo_env=CPATH=\n")
    return folder


@pytest.fixture(scope="module")
def decoys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA installation that breaks every reader."""
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
    # Wheels of a CUDA build of torch, if that is the torch that was chosen, end in its lock's name.
    toolkits = [name for name in fetched if "cuda_" in name]
    assert not [name for name in toolkits if not re.search(r"_cuda(-[\d.]+)?$", name)]


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


def _spawns(log: Path, *mnemonics: str) -> tuple[set[str], set[str]]:
    """Targets whose actions came from the cache, and those that were run, as Bazel's log has it."""
    text = log.read_text(encoding="utf-8").replace("\n}{\n", "\n},{\n")
    cached: set[str] = set()
    made: set[str] = set()
    for spawn in json.loads(f"[{text}]"):
        if spawn["mnemonic"] in mnemonics:
            target = spawn["targetLabel"].removeprefix("//").replace(":", "/").lstrip("/")
            (cached if spawn["cacheHit"] else made).add(target)
    return cached, made


def _programs(bazel: NestedBazel) -> dict[str, bytes]:
    """Bytes of the files, by package and name."""
    folder = bazel.output("")
    return {
        str(path.relative_to(folder).with_suffix("")): path.read_bytes()
        for path in folder.rglob("*.pte")
        if ".runfiles" not in str(path)
    }


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the clone's last build."""
    return tmp_path_factory.mktemp("log") / "log.json"


@pytest.fixture(scope="module")
def clone(
    built: NestedBazel, cache: CacheServer, log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NestedBazel]:
    """Another clone, built with an output base of its own and the cache of the first."""
    folder = tmp_path_factory.mktemp("clone") / "else" / "where"
    shutil.copytree(built.workspace, folder / "workspace")
    with NestedBazel(folder / "workspace", folder / "output", cache.url) as nested:
        nested.run("build", f"--execution_log_json_file={log}", *_TWO_AT_ONCE, "//...")
        yield nested


def test_programs_come_from_a_cache(
    built: NestedBazel, clone: NestedBazel, cache: CacheServer, log: Path
) -> None:
    first, second = _programs(built), _programs(clone)
    shared = first.keys() - {"sum_native"}
    assert len(shared) == _MODELS + 2
    assert _spawns(log, "PteronProgram") == (shared, {"sum_native"})
    _, compiled = _spawns(log, "CppCompile", "CudaCompile")
    assert not compiled
    assert {n: second[n] for n in shared} == {n: first[n] for n in shared}
    for name in shared:
        # Inductor has compiled it: what no backend takes would be an error.
        meta = Runtime.get().load_program(first[name]).metadata("forward")
        assert meta.backends() == ["CudaBackend" if name == "sum_cuda" else "CpuBackend"]
    # What is for this machine alone is not among what others may get.
    files = {path.name for path in (cache.folder / "cas").iterdir()}
    for name, program in second.items():
        assert (hashlib.sha256(program).hexdigest() in files) is (name in shared), name


def test_same_bytes_when_rebuilt(built: NestedBazel, clone: NestedBazel, log: Path) -> None:
    """Elsewhere and without the decoys."""
    mnemonics = ("PteronProgram", "CudaCompile", "CppLink")
    rebuilt = {"sum", "sum_cuda", "cuda_program"}
    logged = f"--execution_log_json_file={log}"
    modified = f"--modify_execution_info=({'|'.join(mnemonics)})=+no-cache"
    clone.run("build", logged, *_TWO_AT_ONCE, modified, *(f"//:{name}" for name in sorted(rebuilt)))
    cached, made = _spawns(log, *mnemonics)
    assert not cached
    assert made >= {*rebuilt, "add"}
    for path in ("sum.pte", "sum_cuda.pte", "_objs/add/add.cu.pic.o", "cuda_program"):
        assert clone.output(path).read_bytes() == built.output(path).read_bytes(), path


@pytest.fixture(scope="module")
def farm() -> Iterator[BuildFarm]:
    """BuildGrid, and a worker that has an action's inputs alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, BuildFarm(Path(folder)) as farm:
        yield farm


def _lower(bazel: NestedBazel, farm: BuildFarm, log: Path, *flags: str) -> tuple[bytes, set[str]]:
    """By remote execution: `sum.pte`, and what the worker had that is not among the inputs."""
    bazel.output("sum.pte").unlink()  # another strategy is no reason to build it again
    bazel.run(
        "build",
        f"--remote_executor={farm.url}",
        f"--remote_cache={farm.url}",
        "--remote_instance_name=main",
        "--remote_max_connections=4",
        "--remote_download_outputs=all",
        "--strategy=PteronProgram=remote",
        "--spawn_strategy=sandboxed,local",
        "--modify_execution_info=PteronProgram=+no-cache",
        f"--execution_log_json_file={log}",
        *flags,
        "//:sum",
    )
    assert Path(farm.commands.pop()[0]).name == "sum_lowering"
    assert not farm.commands
    assert '"runner": "remote"' in log.read_text(encoding="utf-8")
    return bazel.output("sum.pte").read_bytes(), farm.loaded.pop()


def test_a_farm_lowers_to_the_same_bytes(
    built: NestedBazel, clone: NestedBazel, farm: BuildFarm, log: Path
) -> None:
    """With the machine's compiler and interpreter, which the worker has, too."""
    program, loaded = _lower(clone, farm, log)
    assert program == built.output("sum.pte").read_bytes()
    assert {"cc1plus", "python3"} <= {Path(name).name for name in loaded}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="wheels are not for Debian's Python")
def test_a_worker_needs_nothing_but_a_shell(
    built: NestedBazel, clone: NestedBazel, farm: BuildFarm, log: Path
) -> None:
    """With Debian's compiler and interpreter, which are inputs."""
    flags = [
        f"--@executorch//third_party/{name}=@executorch//third_party/{name}:debian"
        for name in ("compiler", "python")
    ]
    program, loaded = _lower(clone, farm, log, *flags)
    assert program == built.output("sum.pte").read_bytes()
    # What cleans up after a compiler that is interrupted, and the C library of all three.
    shell = {"/bin/sh", "rm", "sleep"}
    libraries = {name for name in loaded if re.search(r"/(libc\.so|ld-linux)[^/]*$", name)}
    assert loaded - libraries <= shell


def test_cuda_program(built: NestedBazel) -> None:
    version, *rest = _run(built.output("cuda_program")).splitlines()
    assert version == "cuBLAS 13"
    assert rest in (["added"], ["no CUDA device"])


def test_zip(built: NestedBazel) -> None:
    """The last one: a zip is another configuration of everything."""
    built.run("build", "--build_python_zip", "//:zip_program")
    lines = _run(built.output("zip_program")).splitlines()
    assert lines == ["[] pteron.runtime", "backends exir"]
