"""metal_gpu.mm against declarations of Apple's names (stubs/), by clang for a Mac; not run."""

import os
import pathlib
import subprocess
import sys

import pytest

from tools.lint import source_tree

_FOLDER = "backends/apple/metal/runtime/darwin"


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """All sources, under the name that headers are known by."""
    source_tree.copy(source_tree.root(), tmp_path / "pteron")
    return tmp_path


def errors(tree: pathlib.Path) -> str:
    """What clang says."""
    folder = tree / "pteron" / _FOLDER
    command = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-macos", "-c"]
    command += ["-std=c++17", "-fobjc-arc", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{tree}", f"-I{folder / 'stubs'}", str(folder / "metal_gpu.mm")]
    done = subprocess.run(
        [*command, "-o", str(tree / "metal_gpu.o")],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "ZIG_GLOBAL_CACHE_DIR": str(tree / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


def test_the_gpu_of_a_mac_type_checks(tree: pathlib.Path) -> None:
    assert errors(tree) == ""
    magic = (tree / "metal_gpu.o").read_bytes()[:8]
    assert magic == bytes.fromhex("cffaedfe0c000001")  # Mach-O of 64 bits for arm64


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("[commands_ commit]", "[commands_ comit]", "comit"),
        ("atIndex:i", "atIndex:error", "undeclared identifier 'error'"),
        ("Error wait() override {", "Error wait(int) override {", "override"),
    ],
)
def test_what_is_wrong_is_noticed(right: str, wrong: str, message: str, tree: pathlib.Path) -> None:
    path = tree / "pteron" / _FOLDER / "metal_gpu.mm"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    assert message in errors(tree)
