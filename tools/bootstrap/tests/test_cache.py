"""The cache's lock and atomic directories, with processes that race and die."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tools.bootstrap import cache


def spawn(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a Python process that can import the bootstrap."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{textwrap.dedent(script)}"
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_locked(directory: Path) -> bool:
    """Whether a process holds the directory's lock."""
    with open(directory / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


BUILD_ONCE = """
    import time
    from pathlib import Path
    from tools.bootstrap import cache

    root = Path(sys.argv[1])
    with cache.locked(root):
        if not (root / "made").exists():
            with cache.atomic_directory(root / "made") as fresh:
                time.sleep(0.5)
                (fresh / "file").write_text("whole")
                print("built")
    print((root / "made/file").read_text())
"""


def test_racing_processes_build_once_and_see_it_whole(tmp_path: Path) -> None:
    processes = [spawn(BUILD_ONCE, tmp_path) for _ in range(3)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(outputs) == ["built\nwhole\n", "whole\n", "whole\n"]


def test_who_waits_says_so(tmp_path: Path) -> None:
    with cache.locked(tmp_path):
        process = spawn(BUILD_ONCE, tmp_path)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == "tools/bazel: another tools/bazel is setting up Bazel; waiting for it\n"
        assert process.poll() is None
    assert process.communicate()[0] == "built\nwhole\n"


DIE_INSIDE = """
    import os, signal
    from pathlib import Path
    from tools.bootstrap import cache

    root = Path(sys.argv[1])
    with cache.locked(root), cache.atomic_directory(root / "made") as fresh:
        (fresh / "file").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_neither_lock_nor_half_a_directory(tmp_path: Path) -> None:
    assert spawn(DIE_INSIDE, tmp_path).wait() == -9
    assert not (tmp_path / "made").exists()
    assert list(tmp_path.glob("*.partial"))
    with cache.locked(tmp_path), cache.atomic_directory(tmp_path / "made") as fresh:
        (fresh / "file").write_text("whole")
    assert (tmp_path / "made/file").read_text() == "whole"
    assert not list(tmp_path.glob("*.partial"))


LEAVE_CHILD = """
    import os, signal, subprocess
    from pathlib import Path
    from tools.bootstrap import cache

    with cache.locked(Path(sys.argv[1])):
        subprocess.Popen(["cat"], close_fds=False)  # lives until its input ends
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_children_of_a_killed_process_are_waited_for(tmp_path: Path) -> None:
    process = spawn(LEAVE_CHILD, tmp_path)
    process.wait()
    assert is_locked(tmp_path)
    assert process.stdin is not None
    process.stdin.close()
    with cache.locked(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cache.atomic_directory(tmp_path / "made"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_replaced(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with cache.atomic_directory(tmp_path / "made") as fresh:
            (fresh / text).touch()
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["new"]


def test_keep_newest(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).mkdir()
        stamp = time.time() - 100 * age
        os.utime(tmp_path / name, (stamp, stamp))
    cache.keep_newest(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "new"]
