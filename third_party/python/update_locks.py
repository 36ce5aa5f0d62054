"""Writes the locks of all wheels from their requirements.

    python3 third_party/python/update_locks.py             # newest versions that fit
    python3 third_party/python/update_locks.py --keep      # same versions: adds missing hashes
    python3 third_party/python/update_locks.py --only=cuda # one lock
    python3 third_party/python/update_locks.py --requirements=mine.txt --lock=mine.json

Needs pip and an index that has the wheels; downloads only their metadata where the index allows.
A lock lists, for each package, its version, what it imports, and the sha256 of the wheel for each
Python that `PYTHONS` names. Hashes that the lock already has for the same version stay, so that a
machine whose index lacks some wheels does not drop them.

The last form is for another module: a lock of what its models import, for a hub on `pypi`.
"""

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

try:
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.version import Version
except ImportError:  # The build's interpreter has no pip, but perhaps this wheel.
    from packaging.requirements import Requirement
    from packaging.version import Version

ROOT = Path(__file__).absolute().parents[2]

# The first one resolves the versions; the others only add the hashes of their wheels.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)]
_PLATFORMS += [f"manylinux{year}_x86_64" for year in ("2014", "2010", "1")] + ["linux_x86_64"]


@dataclasses.dataclass(frozen=True)
class LockFile:
    """One lock.

    Attributes:
        name: what --only calls it.
        path: the lock, relative to the repository.
        requirements: what is wanted, relative to the repository.
        on: names of the locks whose packages it may use and does not repeat.
        is_complete: whether the requirements name every package; else pip adds what they require.
        add: what packages import though they don't require it.
    """

    name: str
    path: str
    requirements: str
    on: tuple[str, ...] = ()
    is_complete: bool = False
    add: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def _lock_of(name: str, **options: Any) -> LockFile:
    """The lock of `third_party/NAME`."""
    folder = f"third_party/{name}"
    return LockFile(name, f"{folder}/lock.json", f"{folder}/requirements.txt", **options)


def _lock_of_python(name: str, **options: Any) -> LockFile:
    """A lock of `third_party/python`."""
    folder = "third_party/python"
    path, requirements = f"{folder}/locks/{name}.json", f"{folder}/requirements/{name}.txt"
    return LockFile(name, path, requirements, **options)


_COMMON = ("common",)
LOCK_FILES = (
    _lock_of_python("common"),
    *(
        _lock_of_python(f"torch_{build}", on=_COMMON)
        for build in ("cpu", "cuda", "cuda_2.12.1", "cuda_2.14.1")
    ),
    _lock_of("cuda", is_complete=True),
    _lock_of(
        "executorch",
        on=_COMMON,
        is_complete=True,
        add={"executorch": ("torch",), "torchao": ("torch",)},
    ),
    _lock_of("onnxruntime", on=_COMMON),
    _lock_of("iree", on=("common", "onnxruntime"), add={"iree_base_compiler": ("onnx",)}),
    _lock_of("openvino", on=_COMMON, is_complete=True),
    _lock_of("atheris"),
    _lock_of("audio", on=_COMMON),
    _lock_of("buildgrid", on=_COMMON),
    _lock_of("mlserver", on=_COMMON),
    _lock_of("model_signing", on=_COMMON, add={"model_signing": ("pyopenssl",)}),
    _lock_of("ray", on=_COMMON),
    _lock_of("transformers", on=_COMMON, add={"transformers": ("torch",)}),
    _lock_of("serve", on=("common", "transformers")),
    _lock_of(
        "model_libraries",
        on=("common", "transformers"),
        is_complete=True,
        add={
            "diffusers": ("torch",),
            "kornia": ("torch",),
            "monai": ("einops", "torch"),
            "segmentation_models_pytorch": ("torch",),
            "timm": ("torch",),
            "torch_geometric": ("torch",),
            "torchvision": ("torch",),
        },
    ),
    _lock_of("ziglang", is_complete=True),
)

Lock = dict[str, dict[str, Any]]  # package name -> version, deps, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--keep", action="store_true", help="keep the versions of the locks")
    parser.add_argument("--only", help="name of the one lock to write")
    parser.add_argument("--requirements", help="of another module; with --lock")
    parser.add_argument("--lock", help="the lock to write for --requirements")
    parser.add_argument("--torch", default="cpu", help="which torch that is for")
    arguments = parser.parse_args()
    if (arguments.requirements is None) != (arguments.lock is None):
        parser.error("--requirements and --lock go together")
    files: Iterable[LockFile] = LOCK_FILES
    if arguments.lock:
        torch = f"torch_{arguments.torch}"
        if torch not in (file.name for file in LOCK_FILES):
            parser.error(f"--torch: there is no lock {torch}")
        lock, wanted = (str(Path(p).absolute()) for p in (arguments.lock, arguments.requirements))
        files = [*LOCK_FILES, LockFile("yours", lock, wanted, on=("common", torch))]
        arguments.only = "yours"
    locks: dict[str, Lock] = {}
    for file in files:
        old = read_lock(ROOT / file.path)
        if arguments.only in (None, file.name):
            base = {name: wheel for on in file.on for name, wheel in locks[on].items()}
            try:
                locks[file.name] = make_lock(file, base, old, arguments.keep)
            except subprocess.CalledProcessError as error:
                sys.exit(f"{file.path} is as before; pip can't satisfy it:\n{error.stderr}")
            write_lock(ROOT / file.path, locks[file.name])
            print(f"{file.path}: {len(locks[file.name])} packages")
        else:
            locks[file.name] = old


def make_lock(file: LockFile, base: Lock, old: Lock, keep: bool) -> Lock:
    """Resolves one lock.

    Args:
        file: which one.
        base: the packages of the locks it stands on, kept at their versions.
        old: the lock as it was.
        keep: whether to keep the versions of `old`.
    """
    pins = {**(old if keep else {}), **base}
    wanted = ["--requirement", str(ROOT / file.requirements)]
    items = {
        label(item["metadata"]["name"]): item
        for item in report(PYTHONS[0], wanted, pins, deps=not file.is_complete)
    }
    lock: Lock = {}
    for name, deps in imports(items, base).items():
        if name not in base:
            version = str(Version(items[name]["metadata"]["version"]))
            lock[name] = {
                "version": version,
                "deps": sorted(deps | set(file.add.get(name, ()))),
                "files": dict(old[name]["files"])
                if old.get(name, {}).get("version") == version
                else {},
            }
    for python in PYTHONS:
        for item in wheels(python, lock):
            name = label(item["metadata"]["name"])
            tag, sha256 = wheel_file(item)
            lock[name]["files"][tag] = sha256
    return lock


def imports(items: Mapping[str, Any], base: Lock) -> dict[str, set[str]]:
    """For each package of pip's report, those that it requires, also by the extras asked of it,
    by others or by the requirements.

    Args:
        items: pip's report by name.
        base: further packages that may be required.
    """
    extras = {name: set(item.get("requested_extras", ())) for name, item in items.items()}
    found: dict[str, set[str]] = {name: set() for name in items}
    known = items.keys() | base.keys()
    while True:
        before = str((extras, found))
        for name, item in items.items():
            for text in item["metadata"].get("requires_dist", []):
                requirement = Requirement(text)
                required = label(requirement.name)
                if required in known and _applies(requirement, extras[name]):
                    found[name] |= {required} - {name}
                    extras.get(required, set()).update(requirement.extras)
        if str((extras, found)) == before:
            return found


def wheels(python: str, lock: Lock) -> list[dict[str, Any]]:
    """pip's report on the lock's packages at their versions, as far as there are wheels."""
    pins = [f"{name}==={wheel['version']}" for name, wheel in lock.items()]
    try:
        return report(python, pins, {}, deps=False)
    except subprocess.CalledProcessError:
        found = []
        for pin in pins:
            try:
                found += report(python, [pin], {}, deps=False)
            except subprocess.CalledProcessError:
                print(f"  no wheel of {pin} for Python {python}")
        return found


def report(python: str, wanted: Iterable[str], pins: Lock, deps: bool) -> list[dict[str, Any]]:
    """What pip would install for a Python on Linux x86-64, without installing it."""
    with tempfile.TemporaryDirectory() as directory:
        constraints = Path(directory) / "constraints.txt"
        lines = [f"{name}=={wheel['version']}\n" for name, wheel in pins.items()]
        constraints.write_text("".join(lines), encoding="utf-8")
        output = Path(directory) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        command += ["--quiet", "--only-binary=:all:", f"--python-version={python}"]
        command += ["--implementation=cp", f"--target={directory}/target"]
        command += [f"--abi=cp{python.replace('.', '')}", "--abi=abi3", "--abi=none"]
        command += [f"--platform={platform}" for platform in [*_PLATFORMS, "any"]]
        command += [f"--constraint={constraints}", f"--report={output}"]
        command += [] if deps else ["--no-deps"]
        subprocess.run([*command, *wanted], check=True, stderr=subprocess.PIPE, text=True)
        return json.loads(output.read_text(encoding="utf-8"))["install"]


def wheel_file(item: dict[str, Any]) -> tuple[str, str]:
    """Tag and sha256 of the wheel file of one entry of pip's report."""
    info = item["download_info"]
    stem = info["url"].rsplit("/", 1)[1].removesuffix(".whl")
    return "-".join(stem.rsplit("-", 3)[1:]), info["archive_info"]["hashes"]["sha256"]


def label(name: str) -> str:
    """The name of a package's Bazel target."""
    return re.sub(r"[-_.]+", "_", name).lower()


def read_lock(path: Path) -> Lock:
    """The packages of a lock; none when there is no such file yet."""
    return json.loads(path.read_text(encoding="utf-8"))["wheels"] if path.exists() else {}


def write_lock(path: Path, lock: Lock) -> None:
    """Writes a lock with sorted keys, so that a diff shows what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"wheels": lock}, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})


if __name__ == "__main__":
    main()
