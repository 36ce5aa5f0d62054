"""Terms that the table "Words" of CONTRIBUTING.md replaces, found in C++, Python and Markdown."""

import re
from pathlib import Path

PAGE = "CONTRIBUTING.md"
_NOT_OURS = (PAGE, "CHANGELOG.md", "third_party/", "tools/lint/tests/")
_KINDS = (".bazel", ".bzl", ".cpp", ".cu", ".cuh", ".h", ".inc", ".md", ".metal", ".mm", ".py")

_BETWEEN = r"\s#>*/_"  # a space, a new line of a comment, an underscore


def complaints(root: Path, files: list[str]) -> list[str]:
    """Lines `file:line: ...` for each term in backquotes of the table's second column.

    Args:
        root: what the paths of `files` are relative to; without a CONTRIBUTING.md nothing is found.
        files: those of other kinds are left out.
    """
    page = root / PAGE
    table = page.read_text(encoding="utf-8").partition("\n## Words\n")[2] if page.exists() else ""
    rows = re.findall(r"^\|([^|]+)\|([^|]+)\|$", table.partition("\n## ")[0], re.MULTILINE)
    terms = {term: say.strip() for say, avoid in rows for term in re.findall("`([^`]+)`", avoid)}
    found = []
    for file in files if terms else ():
        if file.endswith(_KINDS) and not file.startswith(_NOT_OURS):
            text = (root / file).read_text(encoding="utf-8")
            for term, say in terms.items():
                for match in re.finditer(_pattern(term), text, re.IGNORECASE):
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"{file}:{line}: found {term!r}, expected {say}")
    return found


def _pattern(term: str) -> str:
    """A term and its plural, as words (also on two lines of a comment) or in a name."""
    return (
        rf"(?<![^\W_]){re.escape(term).replace(chr(92) + ' ', '[' + _BETWEEN + ']+')}s?(?![^\W_])"
    )
