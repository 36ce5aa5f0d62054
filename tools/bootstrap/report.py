"""Output of the bootstrap: progress lines on stderr, and errors with a remedy."""

from __future__ import annotations

import sys


class Problem(Exception):
    """A problem and its remedy.

    Attributes:
        found: the problem, a sentence without a full stop.
        remedy: what to do, a sentence without a full stop.
    """

    def __init__(self, found: str, remedy: str):
        super().__init__(f"{found}. {remedy}.")
        self.found = found
        self.remedy = remedy


def say(text: str) -> None:
    """Prints one progress line."""
    print(f"tools/bazel: {text}", file=sys.stderr, flush=True)


def fail(problems: list[Problem]) -> None:
    """Prints every problem, then exits with status 1."""
    for problem in problems:
        say(f"error: {problem}")
    sys.exit(1)


def megabytes(size: int) -> str:
    """`size` in bytes as text, in whole decimal megabytes."""
    return f"{round(size / 1e6)} MB"
