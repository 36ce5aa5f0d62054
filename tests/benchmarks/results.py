"""What earlier runs measured, and facts about this machine and checkout."""

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


class Results:
    """A JSON file that is kept between runs of the same origin.

    Args:
        path: the file; "" for none.
        origin: first entries of the file. What has others was measured elsewhere and is forgotten.
    """

    def __init__(self, path: str, origin: dict[str, Any]) -> None:
        self._path = Path(path) if path else None
        exists = self._path is not None and self._path.exists()
        found = json.loads(self._path.read_text()) if self._path and exists else {}
        same = all(found.get(key) == value for key, value in origin.items())
        self.report: dict[str, Any] = found if same else dict(origin)

    def save(self) -> None:
        """Writes `report` to the file, if there is one."""
        if self._path:
            self._path.write_text(json.dumps(self.report, indent=1) + "\n")


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str:
    """Of the bundle of tools/gpu, or of the checkout that `bazel run` was called in, with a mark if
    that has changes."""
    bundled = Path(__file__).parents[2] / "commit.txt"
    if bundled.exists():
        return bundled.read_text().strip()
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    folder = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
