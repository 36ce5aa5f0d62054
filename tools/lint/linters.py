"""The formatters, linters and the type checker."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Linter:
    """One tool.

    Attributes:
        name: key of the tool's program, and the name that messages use.
        wants: whether it applies to a file, by path from the repository root.
        check: commands, without the program and the files, that exit with an error on a fault.
        fix: commands that rewrite the files.
        path: the path by which the tool gets a file.
        is_module: whether it is a module that Python runs by the tool's name, not a program.
    """

    name: str
    wants: Callable[[str], bool]
    check: tuple[tuple[str, ...], ...]
    fix: tuple[tuple[str, ...], ...] = ()
    path: Callable[[str], str] = str
    is_module: bool = False


# Those that are packages of `pteron`, by links in python/pteron.
PACKAGES = ("backends", "exir", "runtime")


def _is_starlark(path: str) -> bool:
    return path.endswith((".bazel", ".bzl", ".BUILD"))


def _is_typed(path: str) -> bool:
    """Python of this repository, whose imports resolve; not the downstream test's workspace."""
    return path.endswith(".py") and not path.startswith("tests/downstream/workspace/")


def _module_path(path: str) -> str:
    """The path by which Python finds a file: `exir/x.py` is `pteron.exir.x`."""
    if path == "python/pteron/__init__.py":
        return path + "i"  # which has the types of the names that the other fetches on first use
    return f"python/pteron/{path}" if path.startswith(tuple(f"{f}/" for f in PACKAGES)) else path


LINTERS = (
    Linter(
        "clang-format",
        lambda path: path.endswith((".cpp", ".cu", ".cuh", ".h", ".mm")),
        check=(("--dry-run", "-Werror"),),
        fix=(("-i",),),
    ),
    Linter(
        "ruff",
        lambda path: path.endswith(".py"),
        check=(("format", "--check", "--no-cache"), ("check", "--no-cache")),
        fix=(("check", "--fix-only", "--no-cache", "--quiet"), ("format", "--no-cache")),
    ),
    Linter(
        "mypy",
        _is_typed,
        check=(("--cache-dir=/dev/null",),),
        path=_module_path,
        is_module=True,
    ),
    Linter(
        "buildifier",
        _is_starlark,
        check=(("--mode=check", "--lint=warn"),),
        fix=(("--mode=fix", "--lint=fix"),),
    ),
)


def run(linter: Linter, program: Path, mode: str, root: Path, files: list[str]) -> str | None:
    """Runs a tool's commands for a mode in `root`, on those of the files that it looks at.

    Args:
        linter: the tool.
        program: its absolute path, or Python's.
        mode: "check" or "format".
        root: what the files' paths are relative to; the tools' settings are found there.
        files: all files.

    Returns:
        output of failing commands, or None on success.
    """
    wanted = [linter.path(file) for file in files if linter.wants(file)]
    complaints = []
    for command in (linter.fix if mode == "format" else linter.check) if wanted else ():
        done = subprocess.run(
            [program, *(("-m", linter.name) if linter.is_module else ()), *command, *wanted],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        if done.returncode != 0:
            complaints.append(f"{linter.name}:\n{done.stdout.strip()}")
    return "\n\n".join(complaints) or None
