"""Stages over commands of this machine. Needs no GPU."""

import dataclasses
import json
import sys
import time
from pathlib import Path

from pytest import MonkeyPatch

from tools.gpu import machine
from tools.gpu.stage import Case, Stage, read_result, run_case, run_stage


def _python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def test_a_command_is_one_test(tmp_path: Path) -> None:
    good = run_case(Case("good", _python("print('fine')")), tmp_path, 30)
    bad = run_case(Case("bad", _python("import sys; sys.exit('broken')")), tmp_path, 30)
    assert (good.passed, good.failed, good.tail) == (1, 0, "fine\n")
    assert (bad.passed, bad.failed) == (0, 1) and "broken" in bad.tail


def test_a_program_that_is_not_there_fails(tmp_path: Path) -> None:
    outcome = run_case(Case("gone", ("/nonexistent/program",)), tmp_path, 30)
    assert outcome.failed == 1 and "did not start" in outcome.tail


def test_a_command_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    outcome = run_case(Case("slow", _python(parent)), tmp_path, 1)
    assert outcome.failed == 1 and "stopped after 1 s" in outcome.tail
    time.sleep(3)
    assert not mark.exists()


_GTEST = """<testsuites tests="3"><testsuite name="Scale" tests="3">
<testcase name="passes" status="run" result="completed" />
<testcase name="fails" status="run"><failure message="1 != 2" /></testcase>
<testcase name="skips" status="run" result="skipped"><skipped message="no GPU" /></testcase>
<testcase name="disabled" status="notrun" result="suppressed" />
</testsuite></testsuites>"""
_WRITE = "import sys; open(sys.argv[1].partition('=')[2], 'w').write({!r})"


def test_reports_of_googletest_are_counted(tmp_path: Path) -> None:
    case = Case("gtest", _python(_WRITE.format(_GTEST)), "--gtest_output=")
    outcome = run_case(case, tmp_path, 30)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 1, 2)


def test_a_crash_after_good_tests_is_a_failure(tmp_path: Path) -> None:
    good = '<testsuites><testsuite><testcase name="passes" /></testsuite></testsuites>'
    text = _WRITE.format(good) + "; sys.exit(139)"
    outcome = run_case(Case("crash", _python(text), "--gtest_output="), tmp_path, 30)
    assert (outcome.passed, outcome.failed) == (1, 1)


def test_how_a_command_ended_is_said(tmp_path: Path) -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    outcomes = {
        name: run_case(Case(name, _python(text)), tmp_path, 30)
        for name, text in {"killed": killed, "failed": "raise SystemExit(7)", "good": ""}.items()
    }
    assert outcomes["killed"].tail.endswith("ended by signal 11")
    assert outcomes["failed"].tail.endswith("exit status 7")
    assert outcomes["good"].tail == ""


def test_a_test_program_that_reports_nothing_is_a_failure(tmp_path: Path) -> None:
    for text in ("", "import sys; open(sys.argv[1].partition('=')[2], 'w').write('<testsui')"):
        outcome = run_case(Case("none", _python(text), "--out="), tmp_path, 30)
        assert (outcome.passed, outcome.failed) == (0, 1)


def test_reports_of_pytest_are_counted(tmp_path: Path) -> None:
    report = (
        '<testsuites><testsuite tests="4" failures="1" errors="1" skipped="1"><testcase name="a">'
        '<properties><property name="ms" value="13"/></properties></testcase>'
        '<testcase name="b"><failure/></testcase><testcase name="c"><error/></testcase>'
        '<testcase name="d"><skipped/></testcase></testsuite></testsuites>'
    )
    case = Case("pytest", _python(_WRITE.format(report)), "--junitxml=")
    outcome = run_case(case, tmp_path, 30)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 2, 1)
    assert outcome.facts == {"a: ms": "13"}


def test_what_cannot_run_is_skipped_and_says_why(tmp_path: Path) -> None:
    outcome = run_case(Case("skipped", ("false",), skip="no sanitizer"), tmp_path, 30)
    assert (outcome.skipped, outcome.failed, outcome.tail) == (1, 0, "no sanitizer")


def test_a_stage_goes_on_where_it_stopped(tmp_path: Path) -> None:
    count = "import pathlib, sys; p = pathlib.Path({!r}); p.write_text(p.read_text() + 'x')"
    runs = {name: tmp_path / f"{name}.runs" for name in ("first", "second")}
    for path in runs.values():
        path.write_text("")
    cases = [Case(name, _python(count.format(str(path)))) for name, path in runs.items()]
    partial = run_stage(Stage("stage", cases[:1]), tmp_path, 30)
    assert partial.complete
    result = run_stage(Stage("stage", cases), tmp_path, 30)
    assert result.complete and result.total("passed") == 2
    again = run_stage(Stage("stage", cases), tmp_path, 30)
    assert again.to_json() == result.to_json()
    assert [path.read_text() for path in runs.values()] == ["x", "x"]
    written = json.loads((tmp_path / "stage.json").read_text())
    assert written["complete"] and written["passed"] == 2 and len(written["cases"]) == 2


def test_a_case_that_is_not_finished_goes_on_with_the_next_call(tmp_path: Path) -> None:
    text = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); done = p.exists(); p.touch(); "
    text += "sys.exit(0 if done else 75)"
    case = Case("long", (*_python(text), str(tmp_path / "done")), unfinished=75)
    assert not run_stage(Stage("stage", [case]), tmp_path, 30).complete
    result = run_stage(Stage("stage", [case]), tmp_path, 30)
    assert result.complete and result.total("passed") == 1


def test_a_stage_that_runs_out_of_time_is_not_complete(tmp_path: Path) -> None:
    cases = [Case(f"case_{i}", _python("import time; time.sleep(1.2)")) for i in range(3)]
    result = run_stage(Stage("stage", cases), tmp_path, 2)
    assert not result.complete and 0 < len(result.outcomes) < 3
    assert run_stage(Stage("stage", cases), tmp_path, 30).complete


def test_a_damaged_result_counts_as_none(tmp_path: Path) -> None:
    stage = Stage("stage", [Case("case", _python(""))])
    (tmp_path / "stage.json").write_text('{"cases": [{"na')
    assert read_result(stage, tmp_path).outcomes == {}
    done = run_stage(stage, tmp_path, 30)
    assert read_result(dataclasses.replace(stage), tmp_path).outcomes == done.outcomes


def test_cases_that_run_together_share_the_gpus_out(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    show = _python("import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    cases = [Case(name, show) for name in "abc"]
    for stage, expected in (
        (Stage("together", cases, parallel=3), ["0\n", "1\n", "0\n"]),
        (Stage("alone", cases), ["None\n"] * 3),
    ):
        result = run_stage(stage, tmp_path, 60)
        assert [result.outcomes[case.name].tail for case in cases] == expected
