"""Tiny wheels and a pip that finds only them, for the tests of the wheel store."""

import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path

STORE_PROGRAM = Path("third_party/python/wheel_store.py")


def make_wheel(directory: Path, name: str, version: str, text: str = "") -> str:
    """Writes a wheel with the one module `name`.

    Args:
        directory: where the wheel goes.
        name: of the package and its module.
        version: of the package.
        text: the module's source.

    Returns:
        the sha256 of the wheel file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", text or f"VERSION = {version!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(name: str, version: str, sha256: str, tag: str = "py3-none-any") -> dict[str, object]:
    """One package as a lock has it."""
    return {"name": name, "version": version, "files": {tag: sha256}}


class WheelStore:
    """Runs wheel_store.py with the interpreter that the repository rules use.

    Attributes:
        path: the store.
        index: the only directory that pip finds wheels in.
    """

    def __init__(self, root: Path):
        self.path = root / "store"
        self.index = root / "index"
        self._request = root / "request.json"
        python = json.loads(Path(os.environ["LOCAL_PYTHON"]).read_text(encoding="utf-8"))
        self._python = python["executable"]

    def start(self, *wheels: dict[str, object], remedy: str = "") -> subprocess.Popen[str]:
        request = {"lock": "locks/test.json", "remedy": remedy, "wheels": wheels}
        self._request.write_text(json.dumps(request), encoding="utf-8")
        return subprocess.Popen(
            [self._python, STORE_PROGRAM, self.path, self._request],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)},
        )

    def install(self, *wheels: dict[str, object], remedy: str = "") -> Path:
        """The directory that holds the wheels; fails the test when there is none."""
        process = self.start(*wheels, remedy=remedy)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        return Path(output.strip())

    def error(self, *wheels: dict[str, object], remedy: str = "") -> str:
        """The text of the error; fails the test when the wheels could be had."""
        process = self.start(*wheels, remedy=remedy)
        output, errors = process.communicate()
        assert process.returncode == 1, output
        return errors
