"""Stages: resumable sets of commands with one result file.

    cases = [Case("test_scale", ("bin/test_scale",), report="--gtest_output=xml:")]
    result = run_stage(Stage("gtests", cases), Path("out"), seconds=480)
    result.complete     # False if time ran out: the next call goes on with the cases that are left

The result is out/<stage>.json, rewritten after each case::

    {"stage": "gtests", "complete": true, "passed": 179, "failed": 0, "skipped": 0,
     "seconds": 41.2, "cases": [{"name": "test_scale", "passed": 3, ..., "tail": "..."}]}
"""

import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tools.gpu import machine

#: Characters of a command's output that its result keeps.
_TAIL = 4000


@dataclasses.dataclass(frozen=True)
class Case:
    """A command to run.

    Attributes:
        name: unique in its stage; a file name.
        command: program and arguments.
        report: the argument, less the path at its end, that makes the command write a report of its
            tests as googletest and pytest do. Without it the command is one test, which its exit
            status decides.
        seconds: the longest it may take.
        skip: why it cannot run here; it is then counted as skipped, with this text.
        unfinished: the exit status, if it has one, that says that the same command will go on.
    """

    name: str
    command: tuple[str, ...]
    report: str = ""
    seconds: float = 300
    skip: str = ""
    unfinished: int | None = None


@dataclasses.dataclass(frozen=True)
class Stage:
    """Cases under one name; `parallel` of them at a time, each then with one GPU."""

    name: str
    cases: Sequence[Case]
    parallel: int = 1


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a case: test counts, the end of its output, and test properties."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    tail: str = ""
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class StageResult:
    """The results of a stage so far."""

    stage: str
    expected: int
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.outcomes) >= self.expected

    def total(self, what: str) -> float:
        """Sum of "passed", "failed", "skipped" or "seconds" over the cases."""
        return round(sum(getattr(outcome, what) for outcome in self.outcomes.values()), 1)

    def to_json(self) -> dict[str, Any]:
        totals = {what: self.total(what) for what in ("passed", "failed", "skipped", "seconds")}
        cases = [dataclasses.asdict(outcome) for outcome in self.outcomes.values()]
        return {"stage": self.stage, "complete": self.complete, **totals, "cases": cases}


def read_result(stage: Stage, folder: Path) -> StageResult:
    """Results of an earlier run, for cases that still exist; may be empty."""
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

    No case starts with less than a second left. An unfinished case has no outcome, nor has one that
    was stopped by the stage's limit instead of its own, unless it was the first.
    """
    result = read_result(stage, folder)
    logs = folder / stage.name
    logs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    todo = [case for case in stage.cases if case.name not in result.outcomes]

    def run(index: int, case: Case) -> Outcome | None:
        left = end - time.monotonic()
        if left < 1:
            return None
        gpu = index % max(machine.gpus(), 1) if stage.parallel > 1 else None
        outcome = run_case(case, logs, min(case.seconds, left), gpu)
        cut_short = time.monotonic() >= end and case.seconds > left
        return None if cut_short and case is not todo[0] else outcome

    _write(result, folder)
    with concurrent.futures.ThreadPoolExecutor(stage.parallel) as pool:
        jobs = [pool.submit(run, index, case) for index, case in enumerate(todo)]
        for job in concurrent.futures.as_completed(jobs):
            if outcome := job.result():
                result.outcomes[outcome.name] = outcome
                _write(result, folder)
    return result


def _write(result: StageResult, folder: Path) -> None:
    path = folder / f"{result.stage}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result.to_json(), indent=1) + "\n")
    os.replace(partial, path)


def run_case(case: Case, folder: Path, seconds: float, gpu: int | None = None) -> Outcome | None:
    """Runs `case` for at most `seconds`; its whole output goes to `folder`/<name>.log.

    It sees all GPUs, or only `gpu`.

    None if it is not finished. A command that fails without a failed test in its report (a crash,
    an overrun) is one failure.
    """
    if case.skip:
        return Outcome(case.name, skipped=1, tail=case.skip)
    report, log = folder / f"{case.name}.report", folder / f"{case.name}.log"
    report.unlink(missing_ok=True)
    command = [*case.command, *([f"{case.report}{report}"] if case.report else ())]
    start = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)},
                start_new_session=True,
            )
        except OSError as error:
            output.write(f"{command[0]} did not start: {error}\n".encode())
            status: int | None = 127
        else:
            status = _wait(process, seconds)
    if status is not None and status == case.unfinished:
        return None
    taken = time.monotonic() - start
    tail = log.read_bytes()[-_TAIL:].decode(errors="replace")
    if status is None:
        tail += f"\nstopped after {taken:.0f} s"
    elif status < 0:
        tail += f"\nended by signal {-status}"
    elif status > 0:
        tail += f"\nexit status {status}"
    passed = int(status == 0 and not case.report)
    outcome = Outcome(case.name, passed, seconds=round(taken, 2), tail=tail)
    if case.report and report.exists():
        outcome = _counted(outcome, report)
    ran = outcome.passed + outcome.failed + outcome.skipped
    if not outcome.failed and (status != 0 or not ran):
        outcome = dataclasses.replace(outcome, failed=1)
    return outcome


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit status; None if it timed out and was killed with its children."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _counted(outcome: Outcome, report: Path) -> Outcome:
    """Adds the test counts of a report; unchanged if the report is truncated."""
    try:
        tests = list(ElementTree.parse(report).iter("testcase"))
    except ElementTree.ParseError:
        return outcome
    failed = sum(t.find("failure") is not None or t.find("error") is not None for t in tests)
    skipped = sum(t.find("skipped") is not None or t.get("status") == "notrun" for t in tests)
    return dataclasses.replace(
        outcome,
        passed=len(tests) - failed - skipped,
        failed=failed,
        skipped=skipped,
        facts={
            f"{test.get('name')}: {fact.get('name')}": fact.get("value", "")
            for test in tests
            for fact in test.iter("property")
        },
    )
