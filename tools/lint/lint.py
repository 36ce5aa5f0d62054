"""Checks or rewrites the style of every C++, Python and Starlark file; checks Python's types.

`bazel run //tools/lint:format` and `:check` work on the checkout, or on those of its folders and
files that are named (`-- runtime exir/emit`).
"""

import os
import subprocess
import sys
from pathlib import Path

from tools.lint import words
from tools.lint.linters import LINTERS, run

MISSING = "%s is not here (it comes with npm); its files are left out"
REMEDY = "Most of this is fixed by: tools/bazel run //tools/lint:format"


def programs(environment: dict[str, str]) -> dict[str, Path]:
    """The tools' programs by name; a tool that this machine can't get is left out."""
    found = {}
    for linter in LINTERS:
        variable = linter.name.upper().replace("-", "_")
        program = Path(sys.executable if linter.is_module else environment[variable]).absolute()
        if os.access(program, os.X_OK):
            found[linter.name] = program
    return found


def checkout_files(root: Path) -> list[str]:
    """The files of the checkout that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(file for file in listed.split("\0") if file and (root / file).is_file())


def select(files: list[str], only: list[str]) -> list[str]:
    """The files that are, or are in, one of `only`; all if empty."""
    names = tuple(name.rstrip("/") for name in only)
    return [
        f for f in files if not names or f in names or f.startswith(tuple(n + "/" for n in names))
    ]


def lint(mode: str, root: Path, files: list[str], tools: dict[str, Path]) -> int:
    """Runs every tool and prints all findings; returns the exit status."""
    complaints = ["\n".join(words.complaints(root, files))] if mode == "check" else []
    for linter in LINTERS:
        if linter.name not in tools:
            print(MISSING % linter.name)
            continue
        complaints.append(run(linter, tools[linter.name], mode, root, files) or "")
    if not any(complaints):
        return 0
    print("\n\n".join(filter(None, complaints)))
    if mode == "check":
        print(f"\n{REMEDY}")
    return 1


def main(arguments: list[str]) -> int:
    mode, *only = arguments
    checkout = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    return lint(mode, checkout, select(checkout_files(checkout), only), programs(dict(os.environ)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
