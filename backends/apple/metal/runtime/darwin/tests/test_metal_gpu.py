"""What only a Mac builds, by clang for a Mac; not run. metal_gpu.mm against declarations of Apple's
names (tests/stubs)."""

import os
import pathlib
import subprocess
import sys

import pytest

from tools.lint import source_tree

_FOLDER = "backends/apple/metal/runtime/darwin"
_GPU = f"{_FOLDER}/metal_gpu.mm"
_IMAGES = [f"backends/aoti/runtime/container/image_{name}.cpp" for name in ("darwin", "file")]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """All sources, under the name that headers are known by."""
    source_tree.copy(source_tree.root(), tmp_path / "pteron")
    return tmp_path


def errors(tree: pathlib.Path, source: str = _GPU) -> str:
    """What clang says."""
    folder = tree / "pteron" / _FOLDER
    command = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-macos", "-c"]
    command += ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    command += ["-fobjc-arc"] if source.endswith(".mm") else []
    command += [f"-I{tree}", f"-I{folder / 'tests/stubs'}", str(tree / "pteron" / source)]
    done = subprocess.run(
        [*command, "-o", str(tree / "checked.o")],
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


@pytest.mark.parametrize("source", [_GPU, *_IMAGES])
def test_what_a_mac_builds_type_checks(source: str, tree: pathlib.Path) -> None:
    assert errors(tree, source) == ""
    magic = (tree / "checked.o").read_bytes()[:8]
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
    path = tree / "pteron" / _GPU
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    assert message in errors(tree)
