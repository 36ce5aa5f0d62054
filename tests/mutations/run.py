"""Applies every mutation in turn and checks that its test fails.

  tools/bazel run //tests/mutations:run -- --only=slice

Works on a copy of the tree, so that nothing of yours changes. A test that passes in spite of its
mutation guards nothing: the command lists all of those and fails.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from absl import app, flags

from tests.mutations.mutation import Mutation
from tests.mutations.mutations import MUTATIONS

_ONLY = flags.DEFINE_string("only", "", "Only mutations whose name contains this.")
_TESTS_FAILED = 3  # Bazel's exit code for "built, but a test failed"


def main(argv: list[str]) -> None:
    del argv
    source = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    chosen = [m for m in MUTATIONS if _ONLY.value in m.name]
    if problems := [problem for m in chosen for problem in m.problems(source)]:
        sys.exit("\n".join(problems))
    survivors = []
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    (cache / "pteron").mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which the sandbox hides.
    with tempfile.TemporaryDirectory(dir=cache / "pteron", prefix="mutations-") as folder:
        tree = pathlib.Path(folder) / "tree"
        files = subprocess.run(
            ["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True, text=True
        ).stdout.split("\0")
        for name in filter(None, files):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)
        for number, mutation in enumerate(chosen, 1):
            outcome = try_mutation(mutation, tree, source)
            print(
                f"[{number}/{len(chosen)}] {outcome:8} {mutation.name} ({mutation.test})",
                flush=True,
            )
            if outcome != "caught":
                survivors.append(mutation.name)
        subprocess.run([tree / "tools/bazel", "shutdown"], cwd=tree, check=False)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations caught")
    if survivors:
        sys.exit("not caught: " + ", ".join(survivors))


def try_mutation(mutation: Mutation, tree: pathlib.Path, source: pathlib.Path) -> str:
    """ "caught", "survived", or "broken" where the mutated tree does not build."""
    mutation.apply(tree)
    result = subprocess.run(
        [tree / "tools/bazel", "test", "--noshow_progress", "--test_output=summary", mutation.test],
        cwd=tree,
        check=False,
        capture_output=True,
    )
    shutil.copy2(source / mutation.file, tree / mutation.file)
    if result.returncode == _TESTS_FAILED:
        return "caught"
    return "survived" if result.returncode == 0 else "broken"


if __name__ == "__main__":
    app.run(main)
