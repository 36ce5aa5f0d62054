"""The cache of build results."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pteron.backends.aoti.object_cache import (
    ObjectCache,
    UnsafeCacheWarning,
    default_cache,
    digest,
)


def writer(text: str, calls: list[str]):
    def make(path: Path) -> None:
        calls.append(text)
        path.write_text(text)

    return make


def test_a_result_is_made_once(tmp_path: Path) -> None:
    calls: list[str] = []
    cache = ObjectCache(tmp_path, 1 << 20)
    for _ in range(2):
        assert cache.get("ab12", ".o", writer("text", calls)).read_text() == "text"
    assert calls == ["text"]


def test_threads_that_ask_at_once_wait_for_the_first(tmp_path: Path) -> None:
    calls: list[str] = []
    asked = threading.Barrier(2)

    def ask(cache: ObjectCache) -> str:
        asked.wait()
        return cache.get("ab12", ".o", make).read_text()

    def make(path: Path) -> None:
        calls.append("made")
        time.sleep(0.2)  # time enough for the other thread to ask
        path.write_text("text")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, [ObjectCache(tmp_path, 1 << 20)] * 2)) == ["text"] * 2
    assert calls == ["made"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("stop")

    cache = ObjectCache(tmp_path, 1 << 20)
    with pytest.raises(RuntimeError, match="stop"):
        cache.get("ab12", ".o", fail)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    calls: list[str] = []
    cache = ObjectCache(tmp_path, 250)
    for age, key in enumerate(("aa", "bb")):
        path = cache.get(key, ".o", writer("x" * 100, calls))
        os.utime(path, (age, age))
    cache.get("aa", ".o", writer("never", calls))  # used again: now the newest
    cache.get("cc", ".o", writer("x" * 100, calls))
    left = sorted(path.name for path in tmp_path.rglob("*.o*"))
    assert left == ["aa.o", "aa.o.sha256", "cc.o", "cc.o.sha256"]


def test_the_digest_keeps_parts_apart() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest([b"ab"]) == digest(["ab"])


def test_the_folder_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path / "chosen"))
    assert default_cache().folder == tmp_path / "chosen" / "objects"
    monkeypatch.delenv("PTERON_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache().folder == tmp_path / "pteron" / "objects"


def test_without_a_folder_the_cache_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    monkeypatch.setenv("PTERON_CACHE_DIR", str(taken))
    assert not str(default_cache().folder).startswith(str(tmp_path))
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path / "fine"))
    monkeypatch.setenv("PTERON_CACHE_MB", "0")
    assert not str(default_cache().folder).startswith(str(tmp_path))


UNFINISHED = """
import pathlib, sys, threading
from pteron.backends.aoti.object_cache import ObjectCache

cache = ObjectCache(pathlib.Path(sys.argv[1]), 1 << 20)
begun = threading.Event()

def make(path):
    path.write_text("half")
    begun.set()
    while sys.argv[2] == "daemon":  # a compiler that has not noticed that all ends
        pass
    pathlib.Path.unlink = told  # `workers` raises SystemExit at any point
    raise SystemExit

def told(*_, **__):
    pathlib.Path.unlink = unlink
    raise SystemExit

unlink = pathlib.Path.unlink
threading.Thread(target=cache.get, args=("ab12", ".o", make), daemon=True).start()
begun.wait()
"""


@pytest.mark.parametrize("thread", ["daemon", "told to end while it removes the file"])
def test_what_is_unfinished_at_the_end_is_removed(tmp_path: Path, thread: str) -> None:
    command = [sys.executable, "-c", UNFINISHED, str(tmp_path), thread]
    subprocess.run(command, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), check=True)
    assert [*tmp_path.iterdir()] and not [*tmp_path.glob("*/*")]


KILLED = """
import os, pathlib, signal, sys
from pteron.backends.aoti import workers
from pteron.backends.aoti.object_cache import ObjectCache

def make(path):
    assert workers.run(["touch", str(path)], output=str(path)).returncode == 0
    assert path.exists()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

cache = ObjectCache(pathlib.Path(sys.argv[1]), 1 << 20)
path = cache.get("ab12", ".o", make, workers.unfinished)
assert path.exists()
"""


@pytest.mark.parametrize("how", ["killed", "finished"])
def test_what_a_compiler_wrote_is_removed_if_it_is_not_taken_over(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), how]
    done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0)
    left = {"finished": ["ab12.o", "ab12.o.sha256"], "killed": []}[how]
    until = time.monotonic() + 10
    while (names := sorted(path.name for path in tmp_path.glob("*/*"))) != left:
        assert time.monotonic() < until, names
        time.sleep(0.02)
    time.sleep(0.3)  # a shell that waits no longer removes nothing else
    assert sorted(path.name for path in tmp_path.glob("*/*")) == left


@pytest.mark.parametrize("change", ["entry", "digest", "no digest"])
def test_an_entry_that_is_not_what_was_written_is_made_again(tmp_path: Path, change: str) -> None:
    calls: list[str] = []
    path = ObjectCache(tmp_path, 1 << 20).get("ab12", ".o", writer("text", calls))
    beside = path.with_name(path.name + ".sha256")
    if change == "entry":
        path.write_text("evil")
    elif change == "digest":
        beside.write_bytes(b"\xff" * 64)
    else:
        beside.unlink()
    cache = ObjectCache(tmp_path, 1 << 20)
    for _ in range(2):
        assert cache.get("ab12", ".o", writer("text", calls)).read_text() == "text"
    assert calls == ["text"] * 2


def test_a_new_folder_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path / "chosen"))
    old = os.umask(0)
    try:
        folder = default_cache().folder
    finally:
        os.umask(old)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects").chmod(mode)
    with pytest.warns(UnsafeCacheWarning, match=r"others may write .*objects; try: chmod"):
        assert default_cache().folder != tmp_path / "objects"
    (tmp_path / "objects").chmod(0o755)
    (tmp_path / "objects/d1").mkdir()
    assert default_cache().folder == tmp_path / "objects"
    (tmp_path / "objects/d1").chmod(mode)
    with pytest.warns(UnsafeCacheWarning, match=r"others may write .*objects/d1; try: chmod"):
        assert default_cache().folder != tmp_path / "objects"


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTERON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UnsafeCacheWarning, match=r"owns .*objects; expected user"):
        assert default_cache().folder != tmp_path / "objects"


@pytest.mark.parametrize("text", ["many", "-1", ""])
def test_a_limit_is_a_number(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PTERON_CACHE_MB", text)
    with pytest.raises(ValueError, match="expected a number of MiB"):
        default_cache()
