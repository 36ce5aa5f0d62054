"""A copy of the tree, in which one file at a time is wrong."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from tests.mutations.mutation import Mutation
from tests.mutations.outcome import Outcome


class MutatedTree:
    """A copy of the checkout and a Bazel on it; a context manager that stops that Bazel.

    The copy has a folder of its own among the user's caches (not in /tmp, which the sandbox hides),
    always the same one, so that a second run finds what the first one built. One run at a time.

    Attributes:
        root: the copy's folder.
    """

    def __init__(self, source: pathlib.Path, options: Sequence[str] = ()) -> None:
        """Copies nothing yet. `options` go to each `bazel test`."""
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        self._folder = cache / "pteron" / "mutations"
        self._source = source
        self._options = list(options)
        self._lock: Any = None
        self.root = self._folder / "tree"

    def __enter__(self) -> MutatedTree:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._copy()
        return self

    def __exit__(self, *_: object) -> None:
        self._bazel("shutdown")
        self._lock.close()

    def _copy(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self._source,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if os.path.lexists(self._source / name):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._source / name, self.root / name, follow_symlinks=False)

    def _bazel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # The Bazel that runs this command names its own workspace in its environment.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BUILD_")}
        return subprocess.run(
            [self.root / "tools" / "bazel", *arguments],
            cwd=self.root,
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, test: str, case: str = "") -> Outcome:
        """Runs a test of the tree as it is, or those of its cases that `case` selects."""
        selected = [f"--test_filter={case}"] if case else []
        done = self._bazel(
            *("test", "--noshow_progress", "--test_output=errors", "--color=no"),
            *self._options,
            *selected,
            test,
        )
        return Outcome.of_test(done.returncode, done.stdout)

    @contextlib.contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The tree with a mutation inside."""
        path = self.root / mutation.file
        text = path.read_text()
        path.write_text(text.replace(mutation.before, mutation.after))
        try:
            yield
        finally:
            path.write_text(text)
