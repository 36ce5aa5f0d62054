"""Writes a wheel for this Python, with the platform tag that auditwheel finds for its libraries.

Arguments, one a line in a file: name, version, description, license, output folder, and then three
lines for each file: its path in the wheel, the file or a folder of files, and `own`, or `other` if
it is in the wheel `pteron`, which this one then requires.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Equal files make an equal wheel.
os.environ["SOURCE_DATE_EPOCH"] = "315532800"

from wheel.wheelfile import WheelFile

from tools.sdk.run_path import with_own_run_path

# What programs need; and what lowering needs besides torch.
_REQUIRES = (
    "absl-py",
    "flatbuffers",
    "numpy",
    "rich",
    "safetensors",
    'setuptools; extra == "lowering"',
    'cryptography; extra == "sign"',
    'jinja2; extra == "text"',
    'soundfile; extra == "speech"',
    'soxr; extra == "speech"',
    'tokenizers; extra == "speech"',
    'tokenizers; extra == "text"',
    'jinja2; extra == "serve"',
    'python-multipart; extra == "serve"',
    'starlette; extra == "serve"',
    'tokenizers; extra == "serve"',
    'uvicorn; extra == "serve"',
    'mlserver; extra == "mlserver"',
    'uvloop<0.22; extra == "mlserver"',
    'ray[data,serve]; extra == "ray"',
)


def main() -> None:
    lines = Path(sys.argv[1].removeprefix("@")).read_text(encoding="utf-8").splitlines()
    name, version, description, license_file, dist, *rest = lines
    files = list(zip(rest[::3], rest[1::3], rest[2::3], strict=True))
    tree = {path: file for path, file, _ in files}
    own = {path: file for path, file, owner in files if owner == "own"}
    info = f"{name}-{version}.dist-info"
    requires = [f"pteron=={version}"]
    texts = {f"{info}/licenses/LICENSE": Path(license_file).read_text(encoding="utf-8")}
    if own == tree:
        requires = [*_REQUIRES, _torch(tree)]
        texts[f"{info}/entry_points.txt"] = _ENTRY_POINTS
    texts[f"{info}/METADATA"] = _metadata(name, version, Path(description), requires)

    def write(folder: str, platform: str, tree: dict[str, str]) -> Path:
        tag = f"{_PYTHON}-{_PYTHON}-{platform}"
        path = Path(folder) / f"{name}-{version}-{tag}.whl"
        with WheelFile(path, "w") as wheel:
            for member, data in _contents(tree):
                wheel.writestr(member, data)
            for member, text in {**texts, f"{info}/WHEEL": _WHEEL.format(tag=tag)}.items():
                wheel.writestr(member, text)
        return path

    with tempfile.TemporaryDirectory() as folder:
        platform = _platform(write(folder, "linux_x86_64", tree))
    path = write(dist, platform, own)
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


def _contents(tree: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """Paths and bytes of files, also of those in folders."""
    for name, file in tree.items():
        if os.path.isdir(file):
            for path in sorted(Path(file).rglob("*")):
                if path.is_file():
                    yield f"{name}/{path.relative_to(file)}", path.read_bytes()
        else:
            data = Path(file).read_bytes()
            yield name, with_own_run_path(data) if data.startswith(b"\x7fELF") else data


def _platform(wheel: Path) -> str:
    """The oldest platform that satisfies the libraries."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"auditwheel fails:\n{done.stdout}{done.stderr}")
    report = json.loads(done.stdout)
    if not report["overall_tag"].startswith("manylinux"):
        sys.exit(f"no manylinux platform has what the wheel needs: {report['external_libs']}")
    return report["overall_tag"]


def _torch(tree: dict[str, str]) -> str:
    """The releases of torch that lowering was tested with."""
    text = Path(tree["pteron/backends/aoti/inductor/release.py"]).read_text(encoding="utf-8")
    found = re.search(r"^SUPPORTED_RELEASES = (\(.*\))$", text, re.MULTILINE)
    if found is None:
        sys.exit("backends/aoti/inductor/release.py has no line with SUPPORTED_RELEASES")
    first, *_, last = ast.literal_eval(found[1])
    major, minor = map(int, last.split("."))
    return f'torch>={first},<{major}.{minor + 1}; extra == "lowering"'


def _metadata(name: str, version: str, description: Path, requires: list[str]) -> str:
    needs = "\n".join(requires)
    heads = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        "Summary: Compiles PyTorch programs to single files and runs them without libtorch.",
        f"Requires-Python: =={sys.version_info.major}.{sys.version_info.minor}.*",
        *(f"Requires-Dist: {requirement}" for requirement in requires),
        *(
            f"Provides-Extra: {extra}"
            for extra in sorted(set(re.findall(r'extra == "(\w+)"', needs)))
        ),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join([*heads, "", description.read_text(encoding="utf-8")])


_PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
_WHEEL = """\
Wheel-Version: 1.0
Generator: pteron
Root-Is-Purelib: false
Tag: {tag}
"""
_ENTRY_POINTS = """\
[console_scripts]
pteron = pteron.command.main:main
"""

if __name__ == "__main__":
    main()
