"""The tutorial quotes the code as it is."""

import re
import textwrap
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent.parent
_QUOTES = re.findall(r"```(python|cpp)\n(.*?)```", (_FOLDER / "README.md").read_text(), re.DOTALL)
_SOURCES = [*_FOLDER.glob("*.py"), *_FOLDER.glob("runtime/*.cpp"), *_FOLDER.glob("runtime/*.h")]


def _plain(text: str) -> str:
    """Without indentation, which a quotation may leave out."""
    return "\n".join(line.strip() for line in textwrap.dedent(text).strip().splitlines())


def test_there_are_quotations_and_sources() -> None:
    assert len(_QUOTES) > 8
    assert {"blas_backend.py", "blas_backend.cpp"} <= {path.name for path in _SOURCES}


@pytest.mark.parametrize("quote", [text for _, text in _QUOTES[1:]])
def test_quotation_is_in_the_code(quote: str) -> None:
    wanted = _plain(quote)
    assert any(wanted in _plain(path.read_text()) for path in _SOURCES), wanted
