"""The wheel, unpacked, beside the wheels that it requires and nothing else of ours."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# docs/coming_from.md, step by step.
LINES = """
import torch, pteron
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
x = torch.randn(2, 8)
exported = torch.export.export(model.eval(), (x,))
lowered = pteron.to_edge_transform_and_lower(exported, partitioner=[pteron.CpuPartitioner()])
lowered.to_executorch().save("model.pte")
outputs = pteron.Runtime.get().load_program("model.pte").load_method("forward").execute([x])
torch.testing.assert_close(outputs[0], model(x).detach())
"""
WITHOUT_TORCH = """
import sys, time
sys.modules["torch"] = None
begin = time.process_time()  # other work shares the machine
from pteron import Runtime
print(time.process_time() - begin)
Runtime.get()
"""
PLACES = """
import sys
sys.modules["torch"] = None
import pteron
print(pteron.include_dir(), pteron.cmake_prefix_path(), pteron.pkg_config_path())
"""
COMMAND = """
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name="pteron")
sys.exit(script.load()())
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    (path,) = Path(os.environ["DIST"]).glob("*.whl")
    return path


@pytest.fixture(scope="module")
def folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = [str(folder), *(entry for entry in sys.path if "_pteron_py" not in entry)]
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_what_is_in_it(wheel: Path, folder: Path) -> None:
    python_tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python_tag}-{python_tag}-manylinux_2_" in wheel.name
    assert (folder / "pteron/py.typed").exists()
    libraries = [path.name for path in folder.rglob("*.so")]
    assert {"libcpu_backend.so", "libpteron.so"} <= {
        path.name for path in (folder / "pteron/lib").iterdir()
    }
    assert sorted(set(libraries)) == sorted(libraries)  # none twice
    assert not [path for path in folder.rglob("*") if "tests" in path.parts]


def test_it_requires_the_releases_of_torch_that_were_tested(folder: Path) -> None:
    (metadata,) = folder.glob("*.dist-info/METADATA")
    release = (folder / "pteron/backends/aoti/inductor/release.py").read_text()
    (tested,) = re.findall(r"^SUPPORTED_RELEASES = \((.*)\)$", release, re.MULTILINE)
    first, *_, last = (name.strip('" ') for name in tested.split(","))
    after = f"2.{int(last.partition('.')[2]) + 1}"
    assert f'Requires-Dist: torch>={first},<{after}; extra == "lowering"' in metadata.read_text()
    assert 'Requires-Dist: ray[data,serve]; extra == "ray"' in metadata.read_text()
    assert "Provides-Extra: ray" in metadata.read_text()
    assert 'Requires-Dist: tokenizers; extra == "text"' in metadata.read_text()
    assert 'Requires-Dist: soundfile; extra == "speech"' in metadata.read_text()


def test_the_runtime_needs_no_torch_and_comes_fast(folder: Path) -> None:
    done = [python(folder, WITHOUT_TORCH) for _ in range(5)]
    assert not done[0].returncode, done[0].stderr
    assert min(float(run.stdout) for run in done) < 0.04


def test_lowering_and_running(folder: Path) -> None:
    done = python(folder, LINES)
    assert not done.returncode, done.stderr


def test_cpp_without_bazel(folder: Path, tmp_path: Path) -> None:
    done = python(folder, PLACES)
    assert not done.returncode, done.stderr
    include, prefix, pkg_config = done.stdout.split()
    assert (Path(include) / "pteron/runtime/module.h").exists()
    assert (Path(pkg_config) / "pteron.pc").exists()
    example = Path(prefix) / "share/pteron/example"
    model = folder / "model.pte"  # of the test before
    flags = [f"-I{include}", f"-L{prefix}/lib", "-lpteron", f"-Wl,-rpath,{prefix}/lib"]
    command = ["g++", "-std=c++17", str(example / "run_model.cpp"), *flags, "-o", "run_model"]
    subprocess.run(command, cwd=tmp_path, check=True)
    cmake = str(Path(os.environ["CMAKE"]).resolve())
    configure = [cmake, "-S", str(example), "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run(configure, cwd=tmp_path, check=True)
    subprocess.run([cmake, "--build", "build"], cwd=tmp_path, check=True)
    for program in ("./run_model", "build/run_model", "build/run_model_c"):
        printed = subprocess.check_output([program, model], cwd=tmp_path, text=True)
        assert printed.startswith("float32[2, 4]: "), printed


def test_it_has_the_files_of_the_sdk(folder: Path) -> None:
    root = Path(os.environ["SDK_FILES"])
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    assert Path("include/pteron/runtime/pteron.h") in files
    for file in files:
        assert (folder / "pteron" / file).read_bytes() == (root / file).read_bytes()


def test_it_is_deterministic() -> None:
    (first,) = Path(os.environ["CPU"]).glob("*.whl")
    (second,) = Path(os.environ["SAME_CPU"]).glob("*.whl")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.skipif("CUDA" not in os.environ, reason="the build has no CUDA")
def test_in_two_wheels(wheel: Path) -> None:
    (cpu,) = Path(os.environ["CPU"]).glob("pteron-*.whl")
    (cuda,) = Path(os.environ["CUDA"]).glob("pteron_cuda-*.whl")

    def contents(path: Path) -> dict[str, int]:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename: info.CRC
                for info in archive.infolist()
                if ".dist-info/" not in info.filename
            }

    assert "pteron/lib/libcuda_backend.so" in contents(cuda)
    assert "pteron/backends/cuda/native.py" in contents(cuda)
    assert not contents(cpu).keys() & contents(cuda).keys()
    assert contents(cpu) | contents(cuda) == contents(wheel)
    with zipfile.ZipFile(cuda) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    version = wheel.name.split("-")[1]
    assert f"Name: pteron_cuda\nVersion: {version}\n" in metadata
    assert re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE) == [f"pteron=={version}"]


def test_the_command(folder: Path) -> None:
    done = python(folder, COMMAND, "--help")
    assert not done.returncode and "  export " in done.stdout, done.stderr
    script = 'import sys; sys.modules["torch"] = None' + COMMAND
    done = python(folder, script, "inspect", "model.pte")  # of the test before
    assert not done.returncode and "CpuBackend" in done.stdout, done.stderr
    done = python(folder, script, "export", "model.py:build", "-o", "x.pte")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "try:  pip install 'setuptools' 'torch>=" in done.stderr and "Traceback" not in done.stderr
    )
