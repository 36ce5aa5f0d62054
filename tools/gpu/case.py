"""One command of a stage, and what came of it.

case = Case("test_scale", ("bin/test_scale",), gtest_counts, "--gtest_output=json:")
outcome = run_case(case, folder, seconds=60)
outcome.failed  # 0
"""

import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

#: Characters of a command's output that its result keeps.
TAIL = 4000


@dataclasses.dataclass(frozen=True)
class Counts:
    """Tests of one command; `facts` are what they said of themselves, by test and name."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


Reader = Callable[[Path], Counts]


@dataclasses.dataclass(frozen=True)
class Case:
    """A command to run.

    Attributes:
        name: unique in its stage; a file name.
        command: program and arguments.
        read: counts the tests in the report that the command wrote; without it the command is one
            test, which its exit status decides.
        report_flag: the argument, less the path at its end, that makes the command write a report.
        environment: added to the session's.
        seconds: the longest it may take.
        skip: why it cannot run here; it is then counted as skipped, with this text.
      unfinished: the exit status, if it has one, that says that the same command will go on.
    """

    name: str
    command: tuple[str, ...]
    read: Reader | None = None
    report_flag: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 300
    skip: str = ""
    unfinished: int | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a case; `tail` is the end of its output, `facts` as in `Counts`."""

    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    tail: str
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def gtest_counts(report: Path) -> Counts:
    """From a report of --gtest_output=json."""
    tests = [
        test
        for suite in json.loads(report.read_text())["testsuites"]
        for test in suite["testsuite"]
    ]
    skipped = sum(test.get("result") == "SKIPPED" for test in tests)
    failed = sum("failures" in test for test in tests)
    return Counts(len(tests) - skipped - failed, failed, skipped)


def junit_counts(report: Path) -> Counts:
    """From a report of pytest --junitxml."""
    total = Counts()
    root = ElementTree.parse(report).getroot()
    facts = {
        f"{test.get('name')}: {fact.get('name')}": fact.get("value", "")
        for test in root.iter("testcase")
        for fact in test.iter("property")
    }
    for suite in root.iter("testsuite"):
        tests, failed, errors, skipped = (
            int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
        )
        failed += errors
        total = Counts(
            total.passed + tests - failed - skipped,
            total.failed + failed,
            total.skipped + skipped,
            facts,
        )
    return total


def run_case(case: Case, folder: Path, seconds: float) -> Outcome | None:
    """Runs `case` for at most `seconds`; its whole output goes to `folder`/<name>.log.

    None if it is not finished. A command that fails without a failed test in its report (a crash,
    an overrun) is one failure.
    """
    if case.skip:
        return Outcome(case.name, 0, 0, 1, 0.0, case.skip)
    report, log = folder / f"{case.name}.report", folder / f"{case.name}.log"
    report.unlink(missing_ok=True)
    command = list(case.command)
    if case.report_flag:
        command.append(f"{case.report_flag}{report}")
    start = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **case.environment},
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
    tail = log.read_bytes()[-TAIL:].decode(errors="replace")
    if status is None:
        tail += f"\nstopped after {taken:.0f} s"
    elif status < 0:
        tail += f"\nended by signal {-status}"
    elif status > 0:
        tail += f"\nexit status {status}"
    counts = _counts(case, report, status)
    numbers = (counts.passed, counts.failed, counts.skipped)
    return Outcome(case.name, *numbers, round(taken, 2), tail, dict(counts.facts))


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit status; None if it took too long and was stopped, with what it had started."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _counts(case: Case, report: Path, status: int | None) -> Counts:
    counts = Counts(passed=1 if status == 0 and not case.read else 0)
    if case.read and report.exists():
        try:
            counts = case.read(report)
        except (ValueError, KeyError, ElementTree.ParseError):
            counts = Counts()  # cut off in the middle
    nothing_ran = case.read and counts.passed + counts.failed + counts.skipped == 0
    if counts.failed == 0 and (status != 0 or nothing_ran):
        counts = dataclasses.replace(counts, failed=1)
    return counts
