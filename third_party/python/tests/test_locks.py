"""What the locks promise: everything pinned by hash, for each supported Python, and complete."""

from __future__ import annotations

import re

import pytest

from third_party.python import update_locks, wheel_store

_LOCKS = {
    file.name: update_locks.read_lock(update_locks.ROOT / file.path)
    for file in update_locks.LOCK_FILES
}
_FILES = {file.name: file for file in update_locks.LOCK_FILES}

# PyTorch's CPU wheels are not on every index; see README.md.
_ONLY_311 = {("torch_cpu", "torch")}


def _packages() -> list[tuple[str, str]]:
    return [(lock, name) for lock, packages in _LOCKS.items() for name in packages]


def _is_usable(tag: str, python: str) -> bool:
    """Whether CPython `python` ("311") on x86-64 Linux takes a wheel with this simple tag."""
    interpreter, abi, platform = tag.split("-")
    if platform != "any" and not re.fullmatch(r"(manylinux|linux)\w*_x86_64", platform):
        return False
    if abi == "abi3":
        return int(interpreter.removeprefix("cp")) <= int(python)
    return interpreter in (f"cp{python}", "py3", "py2.py3", f"py{python}")


@pytest.mark.parametrize(("lock", "name"), _packages())
def test_package_is_pinned_for_each_python(lock: str, name: str) -> None:
    package = _LOCKS[lock][name]
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in package["files"].values())
    tags = {tag for file in package["files"] for tag in wheel_store.expand_tag(file)}
    pythons = ["311"] if (lock, name) in _ONLY_311 else ["311", "312", "313"]
    for python in pythons:
        assert any(_is_usable(tag, python) for tag in tags), python


@pytest.mark.parametrize("lock", _LOCKS)
def test_lock_is_complete(lock: str) -> None:
    known = set(_LOCKS[lock]).union(*(_LOCKS[on] for on in _FILES[lock].on))
    known |= {name for added in _FILES[lock].add.values() for name in added}
    for name, package in _LOCKS[lock].items():
        assert set(package["deps"]) <= known, name


def test_a_package_is_in_one_lock_of_a_hub() -> None:
    for torch in ("torch_cpu", "torch_cuda"):
        assert not _LOCKS["common"].keys() & _LOCKS[torch].keys()


def test_both_torch_locks_have_one_release() -> None:
    cpu, cuda = (_LOCKS[name]["torch"]["version"] for name in ("torch_cpu", "torch_cuda"))
    assert cpu == f"{cuda}+cpu"


def test_what_programs_open_is_what_torch_brings() -> None:
    for name in ("nvidia_cublas", "nvidia_cudnn_cu13", "nvidia_cuda_nvrtc"):
        assert _LOCKS["cuda"][name] == _LOCKS["torch_cuda"][name]
