"""Packs tests, runner and sources for a GPU machine without Bazel.

  tools/bazel run //tools/gpu:bundle -- --output=FOLDER

FOLDER then has two files: `run.py`, and the archive that it unpacks. Copy it to the
machine and run `python3 FOLDER/run.py --output=RESULTS` there; see README.md.
"""

import importlib.util
import io
import lzma
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from absl import app, flags

from tools.gpu.run import ARCHIVE

#: Size limit of a bundle in bytes.
LIMIT = 60 << 20

_OUTPUT = flags.DEFINE_string("output", None, "Folder to make or to renew.")

# Compiled for this machine's Python; the GPU machine compiles its own.
_LEFT_OUT = frozenset({"pteron/runtime/python/_native.so"})
_SOURCES = frozenset({".py", ".h", ".cpp", ".inc", ".json"})
_SUFFIXES = _SOURCES | {".so"}
# Folders imported as `pteron/<folder>`. Their libraries are there already.
_NAMED = frozenset({"backends", "exir", "runtime"})
# Python and C++ sources that the tree needs and the machine may lack.
_PACKAGES = ("absl", "flatbuffers", "pybind11")
# Binaries of one build share most bytes, so the compression window must span several.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 128 << 20}]


class TooLarge(RuntimeError):
    """A bundle exceeds its limit."""


def programs(root: Path) -> list[str]:
    """The runner and the C++ tests among the runfiles in `root`, as paths below it."""
    tests = (root / "backends/cuda/runtime").rglob("tests/test_*")
    found = [path for path in tests if os.access(path, os.X_OK) and not path.suffix]
    return ["tools/runner/runner_cuda", *sorted(str(path.relative_to(root)) for path in found)]


def collect(root: Path, binaries: Sequence[str]) -> dict[str, Path | str]:
    """The files of a bundle by their path in it: a file to copy, or the target of a link.

    Args:
        root: folder of this repository's runfiles, which hold what the bundle depends on.
        binaries: programs among them. They keep their paths, since they find libraries from
            there, and bin/ has links to them.
    """
    programs: dict[str, Path | str] = {name: root / name for name in binaries}
    programs |= {f"bin/{Path(name).name}": f"../{name}" for name in binaries}
    found: dict[str, Path | str] = {}
    links = []
    for path in _files(root):
        if path.parts[0].startswith("_solib"):
            links.append(path)
        elif path.parts[:2] == ("tests", "compat"):  # programs of earlier dates
            found[str(path)] = root / path
        elif path.parts[0] not in _NAMED and path.suffix in _SUFFIXES:
            found[str(path)] = root / path
        elif path.suffix in _SOURCES:
            found[f"pteron/{path}"] = root / path
    python = root.parent / "_pteron_py"  # as //tools/build:names.bzl says
    found |= {str(path): python / path for path in _files(python) if path.suffix in _SUFFIXES}
    for left_out in _LEFT_OUT:
        found.pop(left_out, None)
    where = {Path(path).name: path for path in found}
    for path in links:  # where programs and libraries look for libraries
        if path.name in where:
            found[str(path)] = os.path.relpath(where[path.name], path.parent)
        else:
            found[str(path)] = root / path
    return found | programs | _packages()


def _files(root: Path) -> Iterator[Path]:
    """Paths under `root`, relative to it."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ("external", "__pycache__"))
        yield from (Path(folder, name).relative_to(root) for name in names)


def _packages() -> dict[str, Path | str]:
    """The sources of packages that the tree needs."""
    found: dict[str, Path | str] = {}
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0])
        for path in folder.rglob("*"):
            if path.suffix in _SUFFIXES:
                found[f"{package}/{path.relative_to(folder)}"] = path
    return found


def pack(files: Mapping[str, Path | str]) -> bytes:
    """The archive; equal files give equal bytes."""
    packed = io.BytesIO()
    with (
        lzma.open(packed, "wb", format=lzma.FORMAT_XZ, filters=_FILTERS) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            if isinstance(source, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, source
                archive.addfile(entry)
                continue
            data = source.read_bytes()
            entry.size = len(data)
            entry.mode = 0o755 if os.access(source, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def write(folder: Path, files: Mapping[str, Path | str]) -> int:
    """Writes the bundle to `folder`; returns its bytes. TooLarge before anything is written."""
    parts = {ARCHIVE: pack(files), "run.py": Path(__file__).with_name("run.py").read_bytes()}
    size = sum(map(len, parts.values()))
    if size > LIMIT:
        largest = sorted(
            (path.stat().st_size, name) for name, path in files.items() if isinstance(path, Path)
        )
        raise TooLarge(
            f"the bundle takes {size} bytes, more than {LIMIT}; the largest of its "
            f"{len(files)} files, unpacked: {largest[-5:]}. Build for fewer architectures: "
            "--//third_party/cuda:architectures=sm_90"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in parts.items():
        partial = folder / f".{name}.partial"
        partial.write_bytes(data)
        os.replace(partial, folder / name)
    return size


def _commit(repository: str) -> str:
    """The bundled commit, stored in results; "unknown" outside a clone."""
    command = ("git", "-C", repository, "describe", "--always", "--dirty")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    if not _OUTPUT.value:
        raise app.UsageError("--output=FOLDER is needed: where the bundle goes")
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), _OUTPUT.value)
    root = Path(os.path.abspath(__file__)).parents[2]
    files = collect(root, programs(root))
    with tempfile.TemporaryDirectory() as made:
        commit = Path(made, "commit.txt")
        commit.write_text(_commit(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")) + "\n")
        files["commit.txt"] = commit
        size = write(folder, files)
    print(f"{folder}: {len(files)} files, {size / 2**20:.1f} MiB")


if __name__ == "__main__":
    app.run(main)
