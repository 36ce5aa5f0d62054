"""Checks or rewrites the style of every C++, Python and Starlark file; checks Python's types.

`bazel run //tools/lint:format` and `:check` work on the checkout, or on those of its folders and
files that are named (`-- runtime exir/emit`); as a test, `:check` works on a copy of it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.lint import source_tree
from tools.lint.linters import LINTERS, PACKAGES, run


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
    """Those of the files that are in one of the folders `only`, or are named there; or all."""
    names = tuple(name.rstrip("/") for name in only)
    return [
        f for f in files if not names or f in names or f.startswith(tuple(n + "/" for n in names))
    ]


def lint(mode: str, root: Path, files: list[str], tools: dict[str, Path]) -> int:
    """Runs every tool and reports all that they say; gives the exit status."""
    complaints = []
    for linter in LINTERS:
        if linter.name not in tools:
            print(f"{linter.name} is not here (it comes with npm); its files are left out")
            continue
        complaint = run(linter, tools[linter.name], mode, root, files)
        if complaint:
            complaints.append(complaint)
    if not complaints:
        return 0
    print("\n\n".join(complaints))
    if mode == "check":
        print("\nMost of this is put right by: tools/bazel run //tools/lint:format")
    return 1


def main(arguments: list[str]) -> int:
    mode, *only = arguments
    tools = programs(dict(os.environ))
    checkout = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if checkout:
        return lint(mode, Path(checkout), select(checkout_files(Path(checkout)), only), tools)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as scratch:
        root = Path(scratch)
        source_tree.copy(source_tree.root(), root)
        for package in PACKAGES:
            (root / "python/pteron" / package).symlink_to(root / package)
        return lint(mode, root, sorted(source_tree.files(source_tree.root())), tools)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
