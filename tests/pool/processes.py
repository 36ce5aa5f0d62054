"""Processes that a test started, and what they started in turn.

mark = pytest.fixture(marked)

process = begin(mark, "print('begun', flush=True)")
assert not processes_with(mark)
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path


def begin(
    mark: str, script: str, *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Python with `script`, once it has printed "begun". What it starts inherits the mark.

    In `folder`, if there is one, are its work and all caches.
    """
    if folder:
        caches = {"PTERON": "cache", "TORCHINDUCTOR": "inductor", "TRITON": "triton"}
        environment |= {f"{name}_CACHE_DIR": str(folder / to) for name, to in caches.items()}
        environment["TMPDIR"] = str(folder)
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), mark: "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    return process


def processes_with(mark: str) -> dict[int, str]:
    """Command lines of the processes that have a variable `mark` in their environment."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                line = (folder / "cmdline").read_bytes()
                found[int(folder.name)] = line.replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            pass
    return found


def marked() -> Iterator[str]:
    """A mark of its own; what still has it at the end is killed."""
    mark = f"MARK{uuid.uuid4().hex}"
    try:
        yield mark
    finally:
        for process in processes_with(mark):
            os.kill(process, signal.SIGKILL)
