"""Locked, atomically created directories in the user's cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.bootstrap.report import say


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the directory's lock; reports and waits if another process has it.

    The lock goes with the process and those children that inherit its file (close_fds=False): an
    interrupted run leaves no stale lock, and the next one waits for children that it left behind.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another tools/bazel is setting up Bazel; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        yield


@contextlib.contextmanager
def atomic_directory(final: Path) -> Iterator[Path]:
    """Yields a new directory that is renamed to `final` if the block succeeds.

    Replaces `final`. After an error nothing is left; leftovers of an interrupted process are
    removed by the next one. Call it under `locked`.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.exists():
        shutil.rmtree(final)
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


def keep_newest(directory: Path, count: int) -> None:
    """Removes all but the `count` newest subdirectories. Call it under `locked`."""
    entries = [path for path in directory.iterdir() if path.is_dir()]
    for path in sorted(entries, key=lambda path: -path.stat().st_mtime_ns)[count:]:
        shutil.rmtree(path)
