"""What earlier runs measured, and facts about this machine and checkout."""

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]

#: Instruction sets that decide how fast a matmul is.
_ISA = """
    avx2 fma avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16
""".split()


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


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file of JSON lines; none if there is no file.

    Raises:
        ValueError: it has something else.
    """
    lines = Path(path).read_text().splitlines() if path and Path(path).exists() else []
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: expected a JSON object a line ({error}); name another file"
        ) from None


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Writes a file of JSON lines, if `path` is not ""."""
    if path:
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def about(versions: Mapping[str, str], threads: int) -> Row:
    """What each row says of where it is from.

    Args:
        versions: of torch and the peers.
        threads: of each contender.
    """
    return {
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu_name(),
        "isa": _isa(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "versions": dict(versions),
    }


def _cpu_info(key: str) -> str:
    """The first value of that key in what Linux knows about processors; "" on other systems."""
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""


def _isa() -> str:
    found = _cpu_info("flags").split()
    return " ".join(name for name in _ISA if name in found)


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    return _cpu_info("model name") or platform.machine()


def commit(*paths: str) -> str:
    """Of the bundle of tools/gpu, or of the checkout that `bazel run` was called in, with a mark if
    that has changes.

    Args:
        paths: if any, the last commit that changed one of these, and changes of these alone.
    """
    bundled = Path(__file__).parents[2] / "commit.txt"
    if bundled.exists():
        return bundled.read_text().strip()
    found = _git("log", "-1", "--format=%h", "--abbrev=12", "--", *paths)
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", *paths)
    return (found or "unknown") + ("-dirty" if changes else "")


def _git(*command: str) -> str:
    folder = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    done = subprocess.run(
        ("git", *command), cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
