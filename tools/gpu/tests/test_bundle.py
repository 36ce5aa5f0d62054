"""What a bundle holds, what it weighs, and that its parts work when unpacked. Needs no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.gpu import bundle, run

_ROOT = Path(os.path.abspath(bundle.__file__)).parents[2]
_PROGRAMS = bundle.programs(_ROOT)


@pytest.fixture(scope="module")
def files() -> dict[str, Path | str]:
    return bundle.collect(_ROOT, _PROGRAMS)


@pytest.fixture(scope="module")
def unpacked(files: dict[str, Path | str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    assert bundle.write(folder, files) <= bundle.LIMIT
    assert sorted(path.name for path in folder.iterdir()) == ["run.py", "tree.tar.xz"]
    return run.unpack(folder)


def test_holds_what_the_stages_need(files: dict[str, Path | str]) -> None:
    assert "bin/test_ops_without_cudnn" in files and len(_PROGRAMS) == 7
    assert {f"bin/{Path(program).name}" for program in _PROGRAMS} <= files.keys()
    for path in (
        "bin/runner_cuda",
        "pteron/backends/cuda/runtime/libcuda_backend.so",
        "pteron/backends/cpu/runtime/libcpu_backend.so",
        "pteron/backends/cpu/tests/test_cpu_backend.py",
        "pteron/backends/cuda/tests/test_cuda_export.py",
        "pteron/exir/tests/test_program.py",
        "pteron/lib/libpteron.so",
        "pteron/runtime/python/module.cpp",
        "pteron/runtime/core/tensor.h",
        "pteron/runtime/schema/program_generated.py",
        "pteron/command/contender.py",
        "tests/benchmarks/gpu.py",
        "tests/benchmarks/results.py",
        "tests/survey/run.py",
        "tests/benchmarks/cuda/libmodel_launcher.so",
        "absl/app.py",
        "pybind11/include/pybind11/pybind11.h",
        "tools/gpu/session.py",
    ):
        assert path in files, path


def test_leaves_out_what_the_machine_brings(files: dict[str, Path | str]) -> None:
    assert "pteron/runtime/python/_native.so" not in files
    assert not [path for path in files if "torch" in path.split("/") or "cublas" in Path(path).name]


def test_equal_files_give_equal_bytes(files: dict[str, Path | str]) -> None:
    some = {path: files[path] for path in list(files)[:20]}
    assert bundle.pack(some) == bundle.pack(dict(reversed(some.items())))


def test_refuses_to_grow_beyond_the_limit(
    files: dict[str, Path | str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "LIMIT", 1000)
    with pytest.raises(bundle.TooLarge, match="more than 1000; the largest"):
        bundle.write(tmp_path / "new", {"absl/app.py": files["absl/app.py"]})
    assert not (tmp_path / "new").exists()


def test_unpacks_once(unpacked: Path) -> None:
    (unpacked / "mark").touch()
    assert run.unpack(unpacked.parent) == unpacked and (unpacked / "mark").exists()


def test_programs_find_their_libraries(unpacked: Path) -> None:
    for name in ("bin/runner_cuda", "tests/benchmarks/cuda/libmodel_launcher.so"):
        found = subprocess.run(
            ["ldd", str((unpacked / name).resolve())], capture_output=True, text=True
        )
        assert found.returncode == 0 and "not found" not in found.stdout, found.stdout


def test_the_binding_is_compiled_from_the_bundle_alone(unpacked: Path) -> None:
    program = unpacked / "tools/gpu/binding.py"
    compiled = subprocess.run(
        [sys.executable, "-I", str(program)], capture_output=True, text=True, check=True
    )
    assert compiled.stdout.strip() == str(unpacked / "pteron/runtime/python/_native.so")
    script = f"import sys; sys.path.insert(0, {str(unpacked)!r})"
    script += "; from pteron.runtime import Runtime; print(Runtime.get(), sys.modules['pteron'])"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert str(unpacked) in done.stdout


def test_stages_run_from_the_folder(unpacked: Path, tmp_path: Path) -> None:
    """The whole way: run.py, flags, a stage with skips where there is no GPU, the summary."""
    command = [sys.executable, str(unpacked.parent / "run.py"), f"--output={tmp_path}"]
    done = subprocess.run([*command, "--stages=gtests"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("gtests")
    assert (tmp_path / "gtests.json").exists()
    wrong = subprocess.run([*command, "--stages=tests"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "no tests; there are setup, gtests" in wrong.stderr
