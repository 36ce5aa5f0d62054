"""The wheel store: what it installs, what it reuses, and what it says when a wheel is not there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from third_party.python import wheel_store
from third_party.python.tests.wheels import WheelStore, entry, make_wheel


@pytest.fixture
def store(tmp_path: Path) -> WheelStore:
    return WheelStore(tmp_path)


def _entries(store: WheelStore) -> list[str]:
    """What the store holds for others to see."""
    return [path.name for path in store.path.iterdir() if not path.name.startswith(".")]


def test_installs_a_wheel_with_byte_code_that_stays_valid(store: WheelStore) -> None:
    sha256 = make_wheel(store.index, "apple", "1.2")
    path = store.install(entry("apple", "1.2", sha256))
    assert (path / "apple.py").is_file()
    (byte_code,) = (path / "__pycache__").glob("apple.*.pyc")
    flags = int.from_bytes(byte_code.read_bytes()[4:8], "little")
    assert flags == 0b01  # By hash, unchecked: a new time stamp does not make it stale.


def test_reuses_what_is_there_without_pip(store: WheelStore) -> None:
    wheel = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    first = store.install(wheel)
    (store.index / "apple-1.2-py3-none-any.whl").unlink()
    assert store.install(wheel) == first


def test_merges_wheels_of_one_request(store: WheelStore) -> None:
    apple = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    pear = entry("pear", "3", make_wheel(store.index, "pear", "3"))
    path = store.install(apple, pear)
    assert (path / "apple.py").is_file()
    assert (path / "pear.py").is_file()


def test_takes_the_pinned_build_though_the_index_has_a_newer_local_one(store: WheelStore) -> None:
    wheel = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    make_wheel(store.index, "apple", "1.2+local")
    path = store.install(wheel)
    assert "'1.2'" in (path / "apple.py").read_text(encoding="utf-8")


def test_two_at_once_share_one_entry(store: WheelStore) -> None:
    wheel = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    processes = [store.start(wheel) for _ in range(2)]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert results[0][0] == results[1][0]
    assert len(_entries(store)) == 1


def test_an_interrupted_run_leaves_no_entry(store: WheelStore) -> None:
    wheel = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    process = store.start(wheel)
    deadline = time.monotonic() + 30
    while not list(store.path.glob("*.partial")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (leftover,) = store.path.glob("*.partial")
    os.utime(leftover, (0, 0))
    assert (store.install(wheel) / "apple.py").is_file()
    assert not leftover.exists()


def test_error_for_another_build(store: WheelStore) -> None:
    offered = make_wheel(store.index, "apple", "1.2")
    text = store.error(entry("apple", "1.2", "0" * 64), remedy="Choose the other lock.\n")
    assert "apple===1.2 of locks/test.json" in text
    assert f"offers a file with sha256 {offered}, which is not in the lock" in text
    assert "Choose the other lock." in text
    assert "pip config list" in text
    assert not _entries(store)


def test_error_for_a_version_that_the_index_lacks(store: WheelStore) -> None:
    make_wheel(store.index, "apple", "1.2")
    text = store.error(entry("apple", "1.2+cpu", "0" * 64), remedy="Choose the other lock.\n")
    assert "the package index does not have that version as a wheel for this machine" in text
    assert "Choose the other lock." in text


def test_error_for_a_python_that_the_lock_lacks(store: WheelStore) -> None:
    tag = "cp27-cp27mu-manylinux1_x86_64"
    text = store.error(entry("apple", "1.2", "0" * 64, tag), remedy="Choose the other lock.\n")
    assert "locks/test.json has no wheel of apple===1.2 for CPython 3." in text
    assert tag in text
    assert "Choose the other lock." in text
    assert "--repo_env=PTERON_PYTHON=" in text
    assert "update_locks.py" in text


def test_error_for_a_store_that_can_not_be_written(store: WheelStore) -> None:
    wheel = entry("apple", "1.2", make_wheel(store.index, "apple", "1.2"))
    store.path.write_text("not a directory", encoding="utf-8")
    text = store.error(wheel)
    assert str(store.path) in text
    assert "--repo_env=PTERON_WHEEL_STORE=<directory>" in text
    assert "Traceback" not in text


def test_error_for_a_full_disk() -> None:
    request = wheel_store.Request((wheel_store.Wheel("apple", "1.2", {}),), "locks/test.json", "")
    output = "ERROR: Could not install packages: [Errno 28] No space left on device"
    text = wheel_store.explain(output, request)
    assert "apple===1.2 of locks/test.json: the wheel store's disk is full" in text
    assert "--repo_env=PTERON_WHEEL_STORE=<directory>" in text


def test_tests_run_without_the_packages_of_the_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(sys.path); import pip"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'pip'" in done.stderr, done.stdout
    assert "site-packages" not in done.stdout
