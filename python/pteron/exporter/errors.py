"""What is said to whoever calls `pteron.export` wrongly."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ExportError(ValueError):
    """What was given cannot be made into a program: what was found, expected, and what to try."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Says that there is no such thing, and which one may be meant."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no {what} {name!r}{hint} Known: {', '.join(known)}"
