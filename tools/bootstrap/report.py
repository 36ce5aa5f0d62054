"""What the bootstrap says: progress lines on stderr and errors that carry a remedy."""

from __future__ import annotations

import sys


class Problem(Exception):
    """One thing that stands in the way.

    Attributes:
        found: what is wrong, as one sentence without its full stop.
        remedy: what the reader can do about it, as one sentence without its full stop.
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
