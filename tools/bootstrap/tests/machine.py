"""A pretended machine: a copy of tools/bazel, a PATH with chosen programs, a user cache."""

from __future__ import annotations

import hashlib
import shutil
import stat
import subprocess
import sys
from pathlib import Path

# What the shell part of tools/bazel and the launcher call.
_SHELL_TOOLS = ("sh", "cat", "cut", "dirname", "grep", "readlink", "rm", "sha256sum")
_SOURCES = ("tools/bazel", "tools/bootstrap")


class Machine:
    """A machine whose PATH has only what a test puts there.

    Attributes:
        checkout: a directory with tools/bazel and tools/bootstrap.
        cache: the value of XDG_CACHE_HOME.
        environment: all variables that tools/bazel sees.
    """

    def __init__(self, root: Path):
        self.checkout = root / "checkout"
        self.cache = root / "cache"
        self._programs = root / "bin"
        self._programs.mkdir()
        self.environment = {"PATH": str(self._programs), "XDG_CACHE_HOME": str(self.cache)}
        for source in map(Path, _SOURCES):
            target = self.checkout / source
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("tests"))
            else:
                shutil.copy(source, target)
        for copied in self.checkout.rglob("*"):  # of a checkout that may be read-only
            copied.chmod(copied.stat().st_mode | stat.S_IWUSR)
        for tool in _SHELL_TOOLS:
            (self._programs / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")

    def add_program(self, name: str, script: str = "exit 0") -> Path:
        """Puts a shell script on PATH."""
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def add_python(self, version: str | None = None) -> None:
        """Puts this Python on PATH as python3; with a version, it pretends to be that one."""
        if version is None:
            self.add_program("python3", f'exec {sys.executable} "$@"')
            return
        major_minor = ", ".join(version.split("."))
        pretend = (
            f"import runpy, sys; sys.version_info = ({major_minor}, 0); "
            "runpy.run_path(sys.argv[1], run_name='__main__')"
        )
        # `python3 -c <test>` fails; `python3 -B <folder> ...` runs the folder's main.
        run = f'exec {sys.executable} -c "{pretend}" "$2"'
        self.add_program("python3", f'[ "$1" = -c ] && exit 1\n{run}')

    def add_apt(self) -> None:
        """Puts the real apt on PATH."""
        for tool in ("apt-get", "apt-cache", "apt-config", "dpkg-deb"):
            self.add_program(tool, f'PATH=/usr/bin:/bin exec {tool} "$@"')

    def add_compiler(self) -> None:
        """Puts a program on PATH that accepts every C++ source."""
        self.add_program("gcc")

    def setup_key(self) -> str:
        """The name that tools/bazel gives the set-up for its own sources."""
        bootstrap = self.checkout / "tools/bootstrap"
        files = [*sorted(bootstrap.glob("*.py")), *sorted((bootstrap / "overlays").iterdir())]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]

    def bazel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs tools/bazel."""
        return subprocess.run(
            [self.checkout / "tools/bazel", *arguments],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def error(self, *arguments: str) -> str:
        """Runs tools/bazel, which must fail without a traceback, and gives what it said."""
        done = self.bazel(*arguments)
        assert done.returncode == 1, done
        assert "Traceback" not in done.stderr, done.stderr
        return done.stderr
