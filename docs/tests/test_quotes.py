"""Blocks of pages are quotes of the files that their text links to, which are built and tested."""

import re
from pathlib import Path

import pytest

from tools.lint import source_tree

_FILES = source_tree.files(source_tree.root())
_PAGES = ("cpp", "lowering_in_a_build")
_PAGES_WITH_CPP = ("text",)  # other blocks are run
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def quotes(page: str) -> list[tuple[str, str]]:
    """File and text of each block but commands; the file is the last one linked before it."""
    text = Path(f"docs/{page}.md").read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        links = re.findall(r"\[`[^`]+`\]\(\.\./([^)]+)\)", text[: block.start()])
        if block[1] == "cpp" or (block[1] != "sh" and page in _PAGES):
            assert links, f"no file is named before {block[2]!r}"
            found.append((links[-1], block[2]))
    return found


def lines_of(text: str) -> list[str]:
    """Without indentation, empty lines, and the marks of an example in a header's comment."""
    lines = [re.sub(r"^//   ", "", line).strip() for line in text.splitlines()]
    return [" ".join(line.split()) for line in lines if line]


@pytest.mark.parametrize("page", _PAGES + _PAGES_WITH_CPP)
def test_a_block_is_a_quote(page: str) -> None:
    found = quotes(page)
    assert found
    for file, block in found:
        path = _FILES.get(file, Path(file))  # a source, or data such as .bazelrc
        source, quote = lines_of(path.read_text(encoding="utf-8")), lines_of(block)
        starts = range(len(source) - len(quote) + 1)
        assert any(source[i : i + len(quote)] == quote for i in starts), f"{file} lacks\n{block}"
