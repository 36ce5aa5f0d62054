"""The list of mutations fits the tree, and what Bazel says of a test is read rightly."""

from __future__ import annotations

import collections
import dataclasses
import pathlib

import pytest

from tests.mutations.mutation import Mutation
from tests.mutations.mutations import MUTATIONS, TOPICS
from tests.mutations.outcome import Outcome, table
from tools.lint import source_tree

STALE = Mutation(
    topic="memory", name="stale", file="a.py", before="x = 1", after="x = 2", test="//:test"
)


def test_every_mutation_applies(tmp_path: pathlib.Path) -> None:
    source_tree.copy(source_tree.root(), tmp_path)
    problems = [problem for mutation in MUTATIONS for problem in mutation.problems(tmp_path)]
    assert not problems, "\n".join(problems)


def test_every_topic_has_two() -> None:
    counts = collections.Counter(mutation.topic for mutation in MUTATIONS)
    assert counts.keys() == set(TOPICS)
    assert min(counts.values()) >= 2, counts


def test_a_mutation_that_does_not_apply_says_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    assert STALE.problems(tmp_path) == ["stale: text occurs 2 times in a.py, expected once"]
    gone = dataclasses.replace(STALE, file="b.py")
    assert gone.problems(tmp_path) == ["stale: b.py does not exist"]
    (tmp_path / "a.py").write_text("x = 1\n")
    assert STALE.problems(tmp_path) == ["stale: no test //:test"]
    (problem,) = dataclasses.replace(STALE, after="x =").problems(tmp_path)
    assert problem.startswith("stale: a.py does not parse afterwards")


def test_names_are_unique() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(names) == len(set(names))


PYTEST = "=== FAILURES ===\n____ test_a[1] ____\nassert 0\n____ test_b ____\nassert 0\n"


@pytest.mark.parametrize(
    ("exit_code", "output", "status", "detail"),
    [
        (0, "", "passed", ""),
        (3, PYTEST, "failed", "test_a[1] and 1 more"),
        (3, "[  FAILED  ] Session.Shares (0 ms)\n", "failed", "Session.Shares"),
        (3, "//a:b        TIMEOUT in 600.1s\n", "failed", "timeout"),
        (3, "____ ERROR collecting a/test_b.py ____\n", "broken", "____ ERROR collecting"),
        (1, "x\nERROR: a/BUILD.bazel:3:1: no\n", "broken", "ERROR: a/BUILD.bazel:3:1: no"),
    ],
)
def test_what_bazel_said(exit_code: int, output: str, status: str, detail: str) -> None:
    outcome = Outcome.of_test(exit_code, output)
    assert outcome.status == status and outcome.detail.startswith(detail)


def test_only_a_failed_test_catches_a_mutation() -> None:
    means = {s: Outcome(s).of_mutation().status for s in ("passed", "failed", "broken")}
    assert means == {"passed": "survived", "failed": "caught", "broken": "broken"}


def test_the_table_has_a_line_for_each() -> None:
    lines = table([(STALE, Outcome("caught", "test_a"))]).splitlines()
    assert lines[0].split() == ["topic", "outcome", "mutation", "by"]
    assert lines[1].split() == ["memory", "caught", "stale", "test", "test_a"]
