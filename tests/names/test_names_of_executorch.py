"""What runtime/names_of_executorch.md says is here, is here."""

import importlib
import importlib.machinery
import importlib.util
import os
import re
from pathlib import Path

import pytest

from tools.lint import source_tree

_FILES = source_tree.files(source_tree.root())
_PAGE = Path(os.environ["PAGE"]).read_text(encoding="utf-8")
_BUILT = os.environ["BUILT_LABELS"].split()


def found(pattern: str) -> list[str]:
    """What stands between backquotes in the page and matches the whole pattern."""
    return sorted(
        {name for name in re.findall(r"`([^`\n]+)`", _PAGE) if re.fullmatch(pattern, name)}
    )


def test_labels_of_the_page_are_those_that_are_built() -> None:
    right = [line.split("|")[2] for line in _PAGE.splitlines() if line.startswith("| `")]
    ours = {label for cell in right for label in re.findall(r"`(//[^`]+)`", cell)}
    aliases = _PAGE.split("These have no alias")[0].split("## Targets")[1]
    theirs = set(re.findall(r"^\| `(//[^`]+)`", aliases, re.MULTILINE))
    opt_in = {label for label in found(r"//.*") if label.endswith(":torch_named_shims")}
    assert len(theirs) > 15
    assert len(opt_in) == 2
    assert ours | theirs | opt_in == set(_BUILT)


@pytest.mark.parametrize("name", found(r"pteron(\.\w+)+"))
def test_a_python_name_is_there(name: str) -> None:
    module, *rest = name.split(".")
    value = importlib.import_module(module)
    for part in rest:
        module = f"{module}.{part}"
        if hasattr(value, "__path__") and importlib.util.find_spec(module):
            value = importlib.import_module(module)
        else:
            value = getattr(value, part)


@pytest.mark.parametrize("name", found(r"pteron/[\w/]+\.h"))
def test_a_header_is_there(name: str) -> None:
    path = name.removeprefix("pteron/")
    assert path in _FILES or path.replace("_generated.h", ".fbs") in _FILES


def test_a_folder_of_targets_hides_no_module() -> None:
    exir = source_tree.root() / "exir"
    assert (exir / "program").is_dir()
    spec = importlib.machinery.PathFinder.find_spec("program", [str(exir)])
    assert spec
    assert os.path.samefile(str(spec.origin), exir / "program.py")
