"""The formatters and linters, which files each looks at, and how it checks or rewrites them."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Linter:
    """One tool.

    Attributes:
        name: key of the tool's program, and the name that messages use.
        wants: whether it looks at a file, given by its path from the repository's root.
        check: commands, without the program and the files, that exit with an error on a fault.
        fix: commands that rewrite the files.
    """

    name: str
    wants: Callable[[str], bool]
    check: tuple[tuple[str, ...], ...]
    fix: tuple[tuple[str, ...], ...]


def _is_starlark(path: str) -> bool:
    return path.endswith((".bazel", ".bzl", ".BUILD"))


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
        program: its absolute path.
        mode: "check" or "format".
        root: what the files' paths are relative to; the tools' settings are found there.
        files: all files.

    Returns:
        what failing commands said, or None when all went well.
    """
    wanted = [file for file in files if linter.wants(file)]
    complaints = []
    for command in (linter.fix if mode == "format" else linter.check) if wanted else ():
        done = subprocess.run(
            [program, *command, *wanted],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            complaints.append(f"{linter.name}:\n{done.stdout.strip()}")
    return "\n\n".join(complaints) or None
