"""Provides the Bazel of tools/bazel: an installed one, else a private one from Debian."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

from tools.bootstrap import cache, checks, install, launcher, online, packages, registry
from tools.bootstrap.apt import Apt
from tools.bootstrap.report import Problem, fail, say

_HERE = Path(__file__).parent
# The files that determine the package tree, as opposed to registry and launcher.
_TREE_RECIPE = ("packages.py", "install.py")
# Number of setups of other checkouts and branches to keep.
_KEPT = 4


def main(arguments: list[str]) -> None:
    """Replaces this process by Bazel with the arguments, or exits with an error message.

    $PTERON_LAUNCHER, from tools/bazel, is the launcher to make: CACHE/setups/KEY/bazel.
    """
    bazel = online.find_bazel()
    if bazel:
        os.execv(bazel, [bazel, *arguments])
    start = Path(os.environ["PTERON_LAUNCHER"])
    root = start.parents[2]
    problems = checks.problems(root)
    if problems:
        fail(problems)
    try:
        with cache.locked(root):
            if not start.exists():
                set_up(root, start)
    except Problem as problem:
        fail([problem])
    except (OSError, subprocess.SubprocessError) as error:
        remedy = "Check the disk of the user cache and run tools/bazel again"
        fail([Problem(f"setting up Bazel in {root} failed ({error})", remedy)])
    except KeyboardInterrupt:
        say("interrupted; the next run starts over with what was downloaded")
        sys.exit(130)
    os.execv(start, [str(start), *arguments])


def set_up(root: Path, start: Path) -> None:
    """Makes the launcher `start` and what it needs. Call it under the cache's lock."""
    began = time.monotonic()
    say("no suitable bazelisk or bazel that reaches the module registry; using Debian's Bazel")
    tree = root / "trees" / _digest(_TREE_RECIPE)
    if not tree.exists():
        _make_tree(tree, Apt(root / "apt", root / "debs", packages.SUITE))
    home = start.parent
    with cache.atomic_directory(home) as fresh:
        registry.write(fresh, home, tree)
        launcher.write(fresh, home, tree, root)
    for kept in (tree.parent, home.parent):
        cache.keep_newest(kept, _KEPT)
    say(f"Bazel is ready after {time.monotonic() - began:.0f} s; the next start is immediate")


def _make_tree(tree: Path, apt: Apt) -> None:
    say(f"reading the package list of Debian {packages.SUITE}")
    apt.update()
    chosen = packages.choose(apt.show(packages.BAZEL), apt.show(packages.DEFAULT_JRE))
    archives = apt.download(chosen)
    with cache.atomic_directory(tree) as fresh:
        install.install(fresh, tree, archives)


def _digest(files: tuple[str, ...]) -> str:
    return hashlib.sha256(b"".join((_HERE / file).read_bytes() for file in files)).hexdigest()[:16]
