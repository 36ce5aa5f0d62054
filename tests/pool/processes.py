"""Processes that a test started, and what they started in turn.

environment[mark] = "1"         # of the first; the others inherit it
assert not processes_with(mark)
"""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


@contextmanager
def marked() -> Iterator[str]:
    """A mark of its own; what still has it at the end is killed."""
    mark = f"MARK{uuid.uuid4().hex}"
    try:
        yield mark
    finally:
        for process in processes_with(mark):
            os.kill(process, signal.SIGKILL)
