"""What the locks promise: everything pinned by hash, for each supported Python, and complete."""

import re
from pathlib import Path

import pytest

from third_party.python import update_locks, wheel_store

_LOCKS = {
    file.name: update_locks.read_lock(update_locks.ROOT / file.path)
    for file in update_locks.LOCK_FILES
}
_FILES = {file.name: file for file in update_locks.LOCK_FILES}

_TORCH = [name for name in _LOCKS if name.startswith("torch_")]

_ALL = ("311", "312", "313", "314")
_PYTHONS = {
    ("torch_cpu", "torch"): _ALL[:1],  # not on every index; see README.md
    ("atheris", "atheris"): _ALL[:3],  # there is none for 3.14 yet
}


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
    for python in _PYTHONS.get((lock, name), _ALL):
        assert any(_is_usable(tag, python) for tag in tags), python


@pytest.mark.parametrize("lock", _LOCKS)
def test_lock_is_complete(lock: str) -> None:
    known = set(_LOCKS[lock]).union(*(_LOCKS[on] for on in _FILES[lock].on))
    known |= {name for added in _FILES[lock].add.values() for name in added}
    for name, package in _LOCKS[lock].items():
        assert set(package["deps"]) <= known, name


def test_a_package_is_in_one_lock_of_a_hub() -> None:
    for torch in _TORCH:
        assert not _LOCKS["common"].keys() & _LOCKS[torch].keys()


@pytest.mark.parametrize("name", _TORCH)
def test_a_torch_lock_is_one_that_can_be_chosen(name: str) -> None:
    path, choice = Path(_FILES[name].path), name.removeprefix("torch_").replace("_", "-")
    module = Path("MODULE.bazel").read_text(encoding="utf-8")
    assert f'"//{path.parent}:{path.name}": "{choice}"' in module
    _, _, release = choice.partition("-")
    assert release in ("", _LOCKS[name]["torch"]["version"])


@pytest.mark.parametrize("name", _TORCH)
def test_a_torch_lock_has_the_compiler_for_gpus(name: str) -> None:
    assert "triton" in _LOCKS[name]


def test_both_default_torch_locks_have_one_release() -> None:
    cpu, cuda = (_LOCKS[name]["torch"]["version"] for name in ("torch_cpu", "torch_cuda"))
    assert cpu == f"{cuda}+cpu"
    assert _LOCKS["torch_cpu"]["triton"] == _LOCKS["torch_cuda"]["triton"]


def test_what_programs_open_is_what_torch_brings() -> None:
    for name in ("nvidia_cublas", "nvidia_cudnn_cu13", "nvidia_cuda_nvrtc"):
        assert _LOCKS["cuda"][name] == _LOCKS["torch_cuda"][name]
