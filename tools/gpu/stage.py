"""Stages: groups of cases with one result file each, which can be taken up where they stopped.

    result = run_stage(Stage("gtests", cases), Path("out"), seconds=480)
    result.complete     # False if time ran out: the next call goes on with the cases that are left

The result is out/<stage>.json, written anew after each case::

    {"stage": "gtests", "complete": true, "passed": 179, "failed": 0, "skipped": 0,
     "seconds": 41.2, "cases": [{"name": "test_scale", "passed": 3, ..., "tail": "..."}]}
"""

import concurrent.futures
import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.gpu.case import Case, Outcome, run_case


@dataclasses.dataclass(frozen=True)
class Stage:
    """Cases under one name; `parallel` of them at a time."""

    name: str
    cases: Sequence[Case]
    parallel: int = 1


@dataclasses.dataclass
class StageResult:
    """What is known of a stage so far."""

    stage: str
    expected: int
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.outcomes) >= self.expected

    def total(self, what: str) -> float:
        """Sum of "passed", "failed", "skipped" or "seconds" over the cases."""
        return sum(getattr(outcome, what) for outcome in self.outcomes.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "complete": self.complete,
            "passed": self.total("passed"),
            "failed": self.total("failed"),
            "skipped": self.total("skipped"),
            "seconds": round(self.total("seconds"), 1),
            "cases": [dataclasses.asdict(outcome) for outcome in self.outcomes.values()],
        }


def read_result(stage: Stage, folder: Path) -> StageResult:
    """What an earlier run left, less what `stage` no longer has; empty if there is nothing."""
    result = StageResult(stage.name, len(stage.cases))
    try:
        cases = json.loads((folder / f"{stage.name}.json").read_text())["cases"]
        found = {case["name"]: Outcome(**case) for case in cases}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return result
    result.outcomes = {case.name: found[case.name] for case in stage.cases if case.name in found}
    return result


def run_stage(stage: Stage, folder: Path, seconds: float) -> StageResult:
    """Runs the cases that have no outcome yet, for at most `seconds` in all.

    A case is not begun when less than a second is left. One that is not finished stays without an
    outcome, and so does one that is cut short by the end of the stage, not by its own limit, unless
    it began the stage.
    """
    result = read_result(stage, folder)
    logs = folder / stage.name
    logs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    todo = [case for case in stage.cases if case.name not in result.outcomes]
    first = todo[0].name if todo else ""

    def run(case: Case) -> Outcome | None:
        left = end - time.monotonic()
        if left < 1:
            return None
        outcome = run_case(case, logs, min(case.seconds, left))
        cut_short = time.monotonic() >= end and case.seconds > left
        return None if cut_short and case.name != first else outcome

    _write(result, folder)
    with concurrent.futures.ThreadPoolExecutor(stage.parallel) as pool:
        for job in concurrent.futures.as_completed([pool.submit(run, case) for case in todo]):
            if outcome := job.result():
                result.outcomes[outcome.name] = outcome
                _write(result, folder)
    return result


def _write(result: StageResult, folder: Path) -> None:
    path = folder / f"{result.stage}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result.to_json(), indent=1) + "\n")
    os.replace(partial, path)
