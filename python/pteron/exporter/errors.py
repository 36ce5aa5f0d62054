"""Errors of `pteron.export`."""

import difflib
from collections.abc import Iterable


class ExportError(ValueError):
    """Invalid arguments: what was found, expected, and what to try."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown name, with the nearest known one."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no {what} {name!r}{hint} Known: {', '.join(known)}"
