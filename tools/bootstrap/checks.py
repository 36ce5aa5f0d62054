"""Checks the machine before any download, and reports all problems at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.bootstrap.report import Problem, megabytes

# The unpacked packages, their archives and Bazel's first outputs.
NEEDED_BYTES = 1_000_000_000

_APT_TOOLS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb")
_ELSEWHERE = "Set XDG_CACHE_HOME to a directory elsewhere"


def problems(cache: Path) -> list[Problem]:
    """All problems that would prevent a private Bazel in `cache`."""
    return check_apt() + check_compiler() + check_cache(cache)


def check_apt() -> list[Problem]:
    missing = [tool for tool in _APT_TOOLS if not _on_path(tool)]
    if not missing:
        return []
    return [
        Problem(
            f"{', '.join(missing)} not found on PATH, and a private Bazel needs Debian packages",
            "Run this on Debian, or install bazelisk where Bazel's module registry is reachable",
        )
    ]


def check_compiler() -> list[Problem]:
    """Bazel calls $CC, or gcc, for C++ too; it must find its C++ compiler and standard library."""
    driver = os.environ.get("CC") or "gcc"
    remedy = "Install a C++ compiler (Debian: g++), or set CC to its driver, as in CC=clang"
    if not _on_path(driver):
        return [Problem(f"no C++ compiler: {driver} not found on PATH", remedy)]
    done = subprocess.run(
        [driver, "-std=c++17", "-x", "c++", "-fsyntax-only", "-"],
        input="#include <optional>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        return [Problem(f"{driver} does not compile C++17 ({reason})", remedy)]
    return []


def check_cache(cache: Path) -> list[Problem]:
    """The cache must be outside /tmp, on a writable, executable filesystem with enough space."""
    if _is_under_tmp(cache):
        # Every sandboxed action has a /tmp of its own and would not see Bazel's programs.
        found = f"the user cache {cache} is under /tmp, which sandboxed actions do not see"
        return [Problem(found, _ELSEWHERE)]
    if any(character in str(cache) for character in " \t\n:'\""):
        found = f"the path of the user cache {str(cache)!r} has a blank, a colon or a quote"
        return [Problem(found, _ELSEWHERE)]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            runs = _runs_programs(Path(scratch))
    except OSError as error:
        return [Problem(f"the user cache {cache} is not writable ({error.strerror})", _ELSEWHERE)]
    problems = []
    if not runs:
        found = f"the user cache {cache} is on a filesystem that runs no programs (noexec)"
        problems.append(Problem(found, _ELSEWHERE))
    free = shutil.disk_usage(cache).free
    if free < NEEDED_BYTES:
        found = f"the user cache {cache} has {megabytes(free)} free"
        remedy = f"Make room for {megabytes(NEEDED_BYTES)}, or set XDG_CACHE_HOME elsewhere"
        problems.append(Problem(found, remedy))
    return problems


def _on_path(program: str) -> bool:
    return shutil.which(program) is not None


def _is_under_tmp(path: Path) -> bool:
    return Path("/tmp") in (path.resolve(), *path.resolve().parents)


def _runs_programs(directory: Path) -> bool:
    program = directory / "probe"
    program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    program.chmod(0o755)
    try:
        return subprocess.run([program], check=False).returncode == 0
    except PermissionError:
        return False
