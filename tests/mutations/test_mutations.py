"""The list of mutations fits the tree: every text is there once, every test exists."""

from __future__ import annotations

import pathlib

from tests.mutations.mutation import Mutation
from tests.mutations.mutations import MUTATIONS
from tools.lint import source_tree


def test_every_mutation_applies(tmp_path: pathlib.Path) -> None:
    source_tree.copy(source_tree.root(), tmp_path)
    problems = [problem for mutation in MUTATIONS for problem in mutation.problems(tmp_path)]
    assert not problems, "\n".join(problems)


def test_a_mutation_that_does_not_apply_says_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    stale = Mutation("stale", "a.py", "x = 1", "x = 2", "//:test")
    assert stale.problems(tmp_path) == ["stale: text occurs 2 times in a.py, expected once"]
    gone = Mutation("gone", "b.py", "x", "y", "//:test")
    assert gone.problems(tmp_path) == ["gone: b.py does not exist"]


def test_names_are_unique() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(names) == len(set(names))
