"""The linter on a small tree: it finds what is wrong, puts it right, and then is content."""

import os
import subprocess
from pathlib import Path

import pytest

from tools.lint import lint, source_tree, words

CROOKED = {
    "a.cpp": "int  f( ) {return 1;}\n",
    "b.py": "import sys,os\nprint( os )\nn: int = os\n",
    "BUILD.bazel": 'cc_library( name="x", hdrs=["b.h","a.h"], )\n',
    "notes.txt": "not   source\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in CROOKED.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def tools() -> dict[str, Path]:
    return lint.programs(dict(os.environ))


def test_check_reports_every_tools_complaints_at_once(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint.lint("check", tree, sorted(CROOKED), tools()) == 1
    said = capsys.readouterr().out
    for tool in tools():
        assert f"{tool}:\n" in said
    assert "a.cpp" in said and "b.py" in said
    assert "tools/bazel run //tools/lint:format" in said
    assert (tree / "a.cpp").read_text() == CROOKED["a.cpp"]


def test_format_puts_right_what_check_then_accepts(tree: Path) -> None:
    (tree / "b.py").write_text("import sys,os\nprint( os, sys )\n", encoding="utf-8")
    assert lint.lint("format", tree, sorted(CROOKED), tools()) == 0
    assert (tree / "a.cpp").read_text() == "int f() { return 1; }\n"
    assert (tree / "b.py").read_text() == "import os\nimport sys\n\nprint(os, sys)\n"
    assert (tree / "notes.txt").read_text() == CROOKED["notes.txt"]
    if "buildifier" in tools():
        assert lint.lint("check", tree, sorted(CROOKED), tools()) == 0


def test_a_missing_tool_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint.lint("format", tree, ["BUILD.bazel"], {}) == 0
    assert "buildifier is not here (it comes with npm)" in capsys.readouterr().out
    assert (tree / "BUILD.bazel").read_text() == CROOKED["BUILD.bazel"]


CONTRIBUTING = """
## Words

| Say | Instead of |
|---|---|
| matmul | `matrix product`, product |
| cumsum | `running sum` |

## Later

| x | `y` |
"""


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""Matmuls."""\n# a product, y\n', []),
        ("a.py", '"""Matrix products."""\n', ["a.py:1: found 'matrix product', expected matmul"]),
        (
            "a.md",
            "x\n# of a matrix\n# product\n",
            ["a.md:2: found 'matrix product', expected matmul"],
        ),
        (
            "a.py",
            "running_sum = 1  # a running sums\n",
            ["a.py:1: found 'running sum', expected cumsum"] * 2,
        ),
        ("a.cpp", "// a running\n// sum", ["a.cpp:1: found 'running sum', expected cumsum"]),
        ("a.cuh", "int running_sums;", ["a.cuh:1: found 'running sum', expected cumsum"]),
        ("a.inc", "int overrunning_sum, running_summary;", []),
        ("a.fbs", "// a running sum", []),
        ("CHANGELOG.md", "a running sum", []),
        ("third_party/a.md", "a running sum", []),
    ],
)
def test_terms_of_the_table_are_found(
    tree: Path, name: str, text: str, found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text(text, encoding="utf-8")
    assert words.complaints(tree, [name]) == []
    (tree / words.PAGE).write_text(CONTRIBUTING, encoding="utf-8")
    assert words.complaints(tree, [name, words.PAGE]) == found
    assert lint.lint("check", tree, [name], {}) == bool(found)
    said = capsys.readouterr().out
    assert all(line in said for line in found)
    assert lint.lint("format", tree, [name], {}) == 0


def test_checkout_files_leave_out_what_git_ignores(tree: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    (tree / ".gitignore").write_text("*.txt\n")
    subprocess.run(["git", "add", "a.cpp"], cwd=tree, check=True)
    assert lint.checkout_files(tree) == [".gitignore", "BUILD.bazel", "a.cpp", "b.py"]


def test_folders_and_files_can_be_named() -> None:
    files = ["a/b.py", "a/c/d.py", "ab/e.py", "f.py"]
    assert lint.select(files, []) == files
    assert lint.select(files, ["a/", "f.py"]) == ["a/b.py", "a/c/d.py", "f.py"]


def test_the_source_tree_has_its_own_names_again(tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    (stored / "a").mkdir(parents=True)
    (stored / "a/BUILD.bazel.source").write_text("x")
    (stored / "a/b.py").write_text("y")
    assert sorted(source_tree.files(stored)) == ["a/BUILD.bazel", "a/b.py"]
    source_tree.copy(stored, tmp_path / "copy")
    assert (tmp_path / "copy/a/BUILD.bazel").read_text() == "x"
