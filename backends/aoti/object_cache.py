"""A content-addressed cache of build results.

`$PTERON_CACHE_DIR`, else `$XDG_CACHE_HOME/pteron`, else `~/.cache/pteron`. Entries are written
under a temporary name and renamed, so several processes may share the folder. The least recently
used entries are evicted above `limit_bytes`; `PTERON_CACHE_MB` sets the limit (default 2048; 0
keeps nothing between processes).

An entry becomes a part of programs, so it is not trusted blindly: its SHA-256 is in a file beside
it and is checked whenever it is read, and folders that another user owns or may write are refused.
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
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

_DEFAULT_MB = 2048
_NEW = ".new-"
_DIGEST = ".sha256"
#: Older temporary files belong to killed processes.
_ABANDONED_S = 3600


#: Removed when the interpreter exits: it does not wait for daemon threads, `workers` raises
#: SystemExit in threads at any point, in `finally` as well, and a compiler may die late.
_unfinished: set[Path] = set()
os.register_at_fork(after_in_child=_unfinished.clear)


@atexit.register
def _remove_unfinished() -> None:
    for path in tuple(_unfinished):
        path.unlink(missing_ok=True)


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 in hex of `parts`, each preceded by its length."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


class UnsafeCacheWarning(UserWarning):
    """Another user may write the cache's folder, so it is not used."""


class ObjectCache:
    """Maps a key to a file that `make` writes once. Thread-safe."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._being_made: dict[Path, threading.Lock] = {}
        self._unchecked = limit_bytes  # written since the folder was looked through

    def get(
        self,
        key: str,
        suffix: str,
        make: Callable[[Path], None],
        unfinished: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> Path:
        """The file of `key`. If it is missing or not what was written, `make(path)` writes it to
        a temporary path first, which is there inside of `unfinished()`. Concurrent requests for a
        key wait for the first one."""
        path = self._path(key, suffix)
        with self._lock:
            being_made = self._being_made.setdefault(path, threading.Lock())
        with being_made:
            if not _is_intact(path):
                self._make(path, suffix, make, unfinished)
        return path

    def find(self, key: str, suffix: str) -> bytes | None:
        """What `put` stored; None if it is missing or not what was written."""
        path = self._path(key, suffix)
        try:
            data = path.read_bytes()
            if _digest_of(path).read_text() != hashlib.sha256(data).hexdigest():
                return None
            os.utime(path)
        except (OSError, ValueError):
            return None
        return data

    def put(self, key: str, suffix: str, data: bytes) -> None:
        """Stores or replaces an entry. What cannot be written is not kept."""
        with contextlib.suppress(OSError):
            self._make(self._path(key, suffix), suffix, lambda path: _write(path, data))

    def entries(self) -> list[tuple[int, int, Path]]:
        """Time of the last use in ns, bytes and path of each entry."""
        found = []
        for path in self.folder.glob("??/*"):
            if path.name.endswith(_DIGEST):
                continue
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        return found

    def shrink(self, limit_bytes: int, keep: Path | None = None) -> None:
        """Removes the entries that were not used for longest, except `keep`, down to the limit, and
        files that killed processes have left."""
        abandoned = time.time_ns() - _ABANDONED_S * 10**9
        entries = self.entries()
        total = sum(size for _, size, _ in entries)
        for time_ns, size, path in sorted(entries):
            is_new = path.name.startswith(_NEW)
            if time_ns < abandoned if is_new else total > limit_bytes and path != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                    _digest_of(path).unlink(missing_ok=True)
                total -= size

    def _path(self, key: str, suffix: str) -> Path:
        return self.folder / key[:2] / f"{key}{suffix}"

    def _make(
        self,
        path: Path,
        suffix: str,
        make: Callable[[Path], None],
        unfinished: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{_NEW}{secrets.token_hex(8)}{suffix}")
        _unfinished.add(temporary)
        try:
            with unfinished():
                make(temporary)
                _digest_of(path).write_text(_sha256(temporary))
                os.replace(temporary, path)
            _unfinished.discard(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        with self._lock, contextlib.suppress(OSError):
            self._unchecked += path.stat().st_size
        if self._unchecked > self._limit_bytes // 16:  # looking through it takes a while
            self._unchecked = 0
            self.shrink(self._limit_bytes, keep=path)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _digest_of(path: Path) -> Path:
    return path.with_name(path.name + _DIGEST)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_intact(path: Path) -> bool:
    """Whether the file is what was written; marks it as used."""
    try:
        os.utime(path)
        return _digest_of(path).read_text() == _sha256(path)
    except (OSError, ValueError):
        return False


def limit_megabytes() -> int:
    """The size above which entries are evicted, in MiB; 0 keeps nothing.

    ValueError: `PTERON_CACHE_MB` is no number.
    """
    text = os.environ.get("PTERON_CACHE_MB", str(_DEFAULT_MB))
    if not text.isdecimal():
        raise ValueError(f"PTERON_CACHE_MB is {text!r}; expected a number of MiB, such as 2048")
    return int(text)


def danger_of(folder: Path) -> str:
    """Why a folder's entries cannot be trusted: another user may have written them; "" if not."""
    for path in (folder, *folder.glob("??")):
        status = path.stat()
        if status.st_uid != os.geteuid():
            return f"user {status.st_uid} owns {path}; expected user {os.geteuid()}, who runs this"
        if status.st_mode & 0o022:
            return f"others may write {path}; try: chmod -R go-w {folder}, after emptying it"
    return ""


def default_cache() -> ObjectCache:
    """The user's cache, or a per-process one if that folder is not writable, or not safe, of which
    it warns."""
    megabytes = limit_megabytes()
    folder = user_folder() if megabytes > 0 else None
    if folder is not None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            if not (danger := danger_of(folder)):
                return ObjectCache(folder, megabytes << 20)
            warnings.warn(
                f"the cache of compiled code is not used: {danger}",
                UnsafeCacheWarning,
                stacklevel=2,
            )
        except OSError:
            pass
    private = Path(tempfile.mkdtemp(prefix="pteron-objects-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return ObjectCache(private, max(megabytes, _DEFAULT_MB) << 20)


def user_folder() -> Path | None:
    """Where the user's cache is; None: there is no home folder."""
    if chosen := os.environ.get("PTERON_CACHE_DIR"):
        return Path(chosen) / "objects"
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "pteron" / "objects"
    try:
        return Path.home() / ".cache" / "pteron" / "objects"
    except RuntimeError:
        return None
