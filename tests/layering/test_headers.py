"""C++ targets include only headers of their own and of targets that they name in `deps`."""

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.layering.layers import includes
from tools.lint import source_tree

_FILES = source_tree.files(source_tree.root())


def unnamed(path: str, text: str, headers: Collection[str]) -> Iterator[str]:
    """The headers of this repository that a file includes and its target does not name."""
    for line, used in includes(text):
        name = used.removeprefix("pteron/")
        if name != used and name not in headers:
            yield f"{path}:{line}: {name}"


@pytest.mark.parametrize("name", os.environ["HEADERS"].split())
def test_targets_name_the_headers_that_they_include(name: str) -> None:
    targets = json.loads(Path(name).read_text(encoding="utf-8"))
    assert len(targets) > 50
    assert "runtime/core/error.h" in next(
        t["headers"] for t in targets if t["target"].endswith("//runtime/platform:platform")
    )
    wrong = [
        f"{target['target']} has no dependency for {line}"
        for target in targets
        for path in target["sources"]
        if path in _FILES
        for line in unnamed(path, _FILES[path].read_text(encoding="utf-8"), target["headers"])
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_a_header_of_a_dependency_of_a_dependency_is_found() -> None:
    text = '#include <vector>\n#include "pteron/runtime/core/error.h"\n#include "pteron/b/b.h"\n'
    assert [*unnamed("a/a.cpp", text, {"runtime/core/error.h"})] == ["a/a.cpp:3: b/b.h"]
