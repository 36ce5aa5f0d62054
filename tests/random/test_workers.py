"""Outcomes of groups: whose failure it is, what is left to do, what the report finds missing."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.random import coverage, run
from tests.random.group import Outcome
from tests.random.workers import Workers, one_by_one, with_members

NAME = "packed-template-v3"


def test_the_members_of_a_group_that_failed_are_told_apart() -> None:
    whole = Outcome(NAME, [3, 4], errors={3: "refused", 4: "refused"})
    assert one_by_one(("cpu", NAME, (3, 4))) == [("cpu", NAME, (3,)), ("cpu", NAME, (4,))]
    members = [Outcome(NAME, [3]), Outcome(NAME, [4], errors={4: "refused"}, shims=["a"])]
    outcome = with_members(whole, members)
    assert outcome.seeds == [3, 4] and outcome.errors == {4: "refused"} and outcome.shims == ["a"]


def test_a_member_that_fails_only_among_the_others_has_failed() -> None:
    whole = Outcome(NAME, [3, 4], errors={4: "wrong"})
    outcome = with_members(whole, [Outcome(NAME, [3]), Outcome(NAME, [4])])
    assert outcome.errors == {4: "only among [3, 4]: wrong"}


def test_a_program_that_takes_too_long_fails() -> None:
    (outcome,) = Workers(1, limit=0.01).run([("cpu", NAME, (0,))], deadline=float("inf"))
    assert "took longer" in outcome.errors[0]


def test_what_has_an_outcome_is_not_left_to_do(tmp_path: Path) -> None:
    done = [json.dumps(asdict(Outcome(NAME, [0, 1], errors={1: "wrong"}))), '{"configura']
    (tmp_path / "cpu-0-1.jsonl").write_text("\n".join(done))
    outcomes = run.read_outcomes(tmp_path, "cpu")
    left = run.left(run.groups_of(range(5), 3), [NAME], outcomes, "cpu")
    assert left == [("cpu", NAME, (2,)), ("cpu", NAME, (3, 4))]


def test_the_report_names_what_failed_and_what_was_never_met(
    capsys: pytest.CaptureFixture[str],
) -> None:
    everything = sorted(coverage.shims("cpu"))
    templates = dict.fromkeys(coverage.templates("cpu"), 1)
    good = Outcome(NAME, [0], templates=templates, shims=everything)
    assert not run.report([good], [NAME], "cpu")
    bad = Outcome(NAME, [1], errors={1: "wrong"}, families={1: ["tied"]})
    assert run.report([good, bad], [NAME], "cpu")
    assert f"{NAME} 1 (tied): wrong" in capsys.readouterr().out
    good.shims = everything[1:]
    assert run.report([good], [NAME], "cpu")
    assert f"never met: {everything[0]}" in capsys.readouterr().out
