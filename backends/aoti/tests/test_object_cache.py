"""The cache of build results."""

import concurrent.futures
import os
import threading
import time
from pathlib import Path

import pytest

from pteron.backends.aoti.object_cache import ObjectCache, default_cache, digest


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
    assert cache.has("ab12", ".o") and not cache.has("ab12", ".h")


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
    left = sorted(path.name for path in tmp_path.rglob("*.o"))
    assert left == ["aa.o", "cc.o"]


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


def test_a_thread_that_is_told_to_end_while_it_cleans_up_still_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`workers` raises SystemExit in threads at any point."""
    unlink = Path.unlink
    told: list[Path] = []

    def told_first(path: Path, missing_ok: bool = False) -> None:
        if not told:
            told.append(path)
            raise SystemExit
        unlink(path, missing_ok)

    def make(path: Path) -> None:
        path.write_text("half")
        raise SystemExit

    monkeypatch.setattr(Path, "unlink", told_first)
    with pytest.raises(SystemExit):
        ObjectCache(tmp_path, 1000).get("a" * 64, ".o", make)
    assert told and not [path for path in tmp_path.rglob("*") if path.is_file()]
