"""A content-addressed cache of build results.

`$PTERON_CACHE_DIR`, else `$XDG_CACHE_HOME/pteron`, else `~/.cache/pteron`. Entries are written
under a temporary name and renamed, so several processes may share the folder. The least recently
used entries are evicted above `limit_bytes`; `PTERON_CACHE_MB` sets the limit (default 2048; 0
keeps nothing between processes).
"""

import atexit
import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_DEFAULT_MB = 2048
_NEW = ".new-"
#: Older temporary files belong to killed processes.
_ABANDONED_S = 3600


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 in hex of `parts`, each preceded by its length."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


class ObjectCache:
    """Maps a key to a file that `make` writes once. Thread-safe.

    Attributes:
        is_kept: whether other processes see its entries.
    """

    def __init__(self, folder: Path, limit_bytes: int, is_kept: bool = True) -> None:
        self.folder = folder
        self.is_kept = is_kept
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._being_made: dict[Path, threading.Lock] = {}

    def get(self, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
        """The file of `key`; on a miss `make(path)` writes it to a temporary path first. Concurrent
        requests for a key wait for the first one."""
        path = self._path(key, suffix)
        with self._lock:
            being_made = self._being_made.setdefault(path, threading.Lock())
        with being_made:
            if not self._touch(path):
                self._make(path, suffix, make)
        return path

    def has(self, key: str, suffix: str) -> bool:
        """Whether the file is cached."""
        return self._path(key, suffix).exists()

    def _path(self, key: str, suffix: str) -> Path:
        return self.folder / key[:2] / f"{key}{suffix}"

    def _make(self, path: Path, suffix: str, make: Callable[[Path], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{_NEW}{secrets.token_hex(8)}{suffix}")
        try:
            make(temporary)
            os.replace(temporary, path)
        finally:
            try:
                temporary.unlink(missing_ok=True)
            except SystemExit:  # `workers` raises it in this thread at any point, here as well
                temporary.unlink(missing_ok=True)
                raise
        self._shrink(keep=path)

    @staticmethod
    def _touch(path: Path) -> bool:
        try:
            os.utime(path)
        except OSError:
            return False
        return True

    def _shrink(self, keep: Path) -> None:
        entries = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.name.startswith(_NEW) and time.time() - status.st_mtime > _ABANDONED_S:
                    path.unlink()
                    continue
                entries.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._limit_bytes:
                return
            if path != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size


def default_cache() -> ObjectCache:
    """The user's cache, or a per-process one if that folder is not writable."""
    megabytes = int(os.environ.get("PTERON_CACHE_MB", _DEFAULT_MB))
    folder = _user_folder() if megabytes > 0 else None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return ObjectCache(folder, megabytes << 20)
        except OSError:
            pass
    private = Path(tempfile.mkdtemp(prefix="pteron-objects-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return ObjectCache(private, max(megabytes, _DEFAULT_MB) << 20, is_kept=False)


def _user_folder() -> Path | None:
    if chosen := os.environ.get("PTERON_CACHE_DIR"):
        return Path(chosen) / "objects"
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "pteron" / "objects"
    try:
        return Path.home() / ".cache" / "pteron" / "objects"
    except RuntimeError:
        return None
