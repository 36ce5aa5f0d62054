"""Where the bootstrap keeps things: the user's cache directory, its lock and atomic directories."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.bootstrap.report import say


def root() -> Path:
    """The project's directory in the user's cache: $XDG_CACHE_HOME/pteron or ~/.cache/pteron."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pteron"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the directory's lock; says so when another process has it and waits for that one.

    The lock goes with the process, so an interrupted run never leaves it behind.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another tools/bazel is setting up Bazel; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def atomic_directory(final: Path) -> Iterator[Path]:
    """Gives a fresh directory that becomes `final` when the block ends without an error.

    `final` must not exist. After an error nothing is left; what an interrupted process left is
    removed by the next one. Call it under `locked`.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    for leftover in final.parent.glob("*.partial"):
        shutil.rmtree(leftover)
    fresh = Path(tempfile.mkdtemp(prefix=final.name, suffix=".partial", dir=final.parent))
    try:
        fresh.chmod(0o755)
        yield fresh
        fresh.rename(final)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def write_program(path: Path, text: str) -> None:
    """Writes an executable text file in one step: a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(path)
