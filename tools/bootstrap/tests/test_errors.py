"""Every error that tools/bazel can end with, provoked, with its sentence and its remedy."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.bootstrap import checks
from tools.bootstrap.tests.machine import Machine


def test_no_python(machine: Machine) -> None:
    assert machine.error("test") == (
        "tools/bazel: error: python3 not found. Install Python 3.11 or newer with its headers "
        "(Debian: python3 python3-dev python3-pip).\n"
    )


def test_python_too_old(machine: Machine) -> None:
    machine.add_python("3.9")
    error = machine.error("test")
    assert "is Python 3.9, but 3.11 or newer is needed. Install one" in error
    assert "or set PTERON_PYTHON to its path." in error


def test_no_home(machine: Machine) -> None:
    del machine.environment["XDG_CACHE_HOME"]
    error = machine.error("test")
    assert "neither HOME nor XDG_CACHE_HOME is set" in error
    assert "Set HOME (or XDG_CACHE_HOME) to a writable directory." in error


def test_no_apt(machine: Machine) -> None:
    machine.add_python()
    machine.add_compiler()
    error = machine.error("test")
    assert "error: apt-get, apt-cache, apt-config, dpkg-deb not found on PATH, and" in error
    assert "Run this on Debian, or install bazelisk where Bazel's module registry is" in error


def test_no_compiler(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    assert machine.error("test") == (
        "tools/bazel: error: no C++ compiler: gcc not found on PATH. Install a C++ compiler "
        "(Debian: g++), or set CC to its driver, as in CC=clang.\n"
    )


def test_compiler_without_cxx(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_program("gcc", "echo 'gcc: fatal error: cannot execute cc1plus' >&2; exit 1")
    error = machine.error("test")
    assert "gcc does not compile C++17 (gcc: fatal error: cannot execute cc1plus)." in error


def test_cache_under_tmp(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_compiler()
    machine.environment["XDG_CACHE_HOME"] = "/tmp/pteron-test-cache"
    assert machine.error("test") == (
        "tools/bazel: error: the user cache /tmp/pteron-test-cache/pteron is under /tmp, which "
        "sandboxed actions do not see. Set XDG_CACHE_HOME to a directory elsewhere.\n"
    )
    assert not Path("/tmp/pteron-test-cache").exists()


def test_cache_not_writable(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_compiler()
    machine.environment["XDG_CACHE_HOME"] = "/proc/1/cache"
    error = machine.error("test")
    assert "the user cache /proc/1/cache/pteron is not writable (" in error
    assert "Set XDG_CACHE_HOME to a directory elsewhere." in error


def test_cache_with_a_blank(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_compiler()
    machine.environment["XDG_CACHE_HOME"] = f"{machine.cache} of mine"
    error = machine.error("test")
    assert "has a blank, a colon or a quote. Set XDG_CACHE_HOME to a directory elsewhere." in error


def test_all_problems_are_reported_at_once(machine: Machine) -> None:
    machine.add_python()
    machine.environment["XDG_CACHE_HOME"] = "/tmp/pteron-test-cache"
    error = machine.error("test")
    assert error.count("tools/bazel: error: ") == 3


@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt")
def test_no_network(machine: Machine) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_compiler()
    # Nobody listens on port 1.
    machine.environment["PTERON_DEBIAN_MIRROR"] = "http://127.0.0.1:1/debian"
    error = machine.error("test")
    assert "error: apt can't read Debian forky (" in error
    assert (
        "Check the network and the apt mirror and proxy in /etc/apt, or install bazelisk" in error
    )
    assert not list(machine.cache.glob("pteron/setups/*"))


@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt")
def test_mirror_without_signature(machine: Machine, tmp_path: Path) -> None:
    machine.add_python()
    machine.add_apt()
    machine.add_compiler()
    mirror = tmp_path / "mirror"
    (mirror / "dists/forky/main/binary-amd64").mkdir(parents=True)
    (mirror / "dists/forky/Release").write_text("Suite: forky\n")
    machine.environment["PTERON_DEBIAN_MIRROR"] = f"file:{mirror}"
    assert "error: apt can't read Debian forky (" in machine.error("test")


def test_noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(subprocess, "run", refuse)
    (problem,) = checks.check_cache(tmp_path)
    assert str(problem) == (
        f"the user cache {tmp_path} is on a filesystem that runs no programs (noexec). "
        "Set XDG_CACHE_HOME to a directory elsewhere."
    )


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=12_000_000))
    (problem,) = checks.check_cache(tmp_path)
    assert str(problem) == (
        f"the user cache {tmp_path} has 12 MB free. "
        "Make room for 1000 MB, or set XDG_CACHE_HOME elsewhere."
    )


def test_good_cache_has_no_problem(tmp_path: Path) -> None:
    assert checks.check_cache(tmp_path / "new" / "pteron") == []
