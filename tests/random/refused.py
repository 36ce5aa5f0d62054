"""Random modules that lowering refuses."""

from __future__ import annotations

REFUSED: dict[int, str] = {}
"""Seeds, and a part of the message. One in a hundred is too many."""


def is_refused(seed: int, error: str) -> bool:
    """Whether the error of a seed is the refusal that is known."""
    return seed in REFUSED and REFUSED[seed] in error
