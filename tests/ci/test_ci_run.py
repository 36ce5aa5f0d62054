"""What .ci/run counts, from Bazel's summary and reports of tests; the status that it hands on."""

import os
import subprocess
from pathlib import Path

SUMMARY = """\
INFO: Found 9 targets and 9 test targets...
//a:test_cached                                          (cached) PASSED in 0.1s
//a:test_passed                                                   PASSED in 2.0s
  Stats over 2 runs: max = 2.0s, min = 1.0s, avg = 1.5s, dev = 0.5s
//b:test_flaky                       FLAKY, failed in 1 out of 2 in 0.5s
//b:test_gpu                                                      SKIPPED
//c:test_failed                                                   FAILED in 0.3s
  /cache/output/testlogs/c/test_failed/test.log
//c:test_slow                                                    TIMEOUT in 60.1s
//c:test_unbuilt                                          FAILED TO BUILD
//c:test_unrun                                                  NO STATUS

Executed 4 out of 8 tests: 3 tests pass, 1 fails to build, 2 fail locally, 1 was skipped.
"""

GOOGLETEST = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4"><testsuite name="Cuda" tests="4">
  <testcase name="A" status="run" result="completed" classname="Cuda" />
  <testcase name="B" status="run" result="skipped" classname="Cuda">
    <skipped message="c/test.cpp:48&#x0A;no CUDA&#x0A;device&#x0A;"><![CDATA[...]]></skipped>
  </testcase>
  <testcase name="C" status="notrun" result="suppressed" classname="Cuda" />
  <testcase name="D" status="run" result="completed" classname="Cuda">
    <failure message="c/test.cpp:60&#x0A;1 is not 2" type=""></failure>
  </testcase>
</testsuite></testsuites>
"""
PYTEST = """\
<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="2">
<testcase classname="a" name="b" /><testcase classname="a" name="c">
<skipped type="pytest.skip" message="no CUDA device">/a/test.py:3: no CUDA device</skipped>
</testcase>
</testsuite></testsuites>
"""


def run(tmp_path: Path, summary: str, status: int, **reports: str) -> tuple[list[str], int]:
    """Runs .ci/run over a Bazel that prints a summary, has reports and ends with a status."""
    (tmp_path / "summary").write_text(summary, encoding="utf-8")
    for name, report in reports.items():
        folder = tmp_path / name.replace("__", "/")
        folder.mkdir(parents=True)
        (folder / "test.xml").write_text(report, encoding="utf-8")
    bazel = tmp_path / "bazel"
    bazel.write_text(
        f'#!/bin/sh\nif [ "$*" = "info bazel-testlogs" ]; then echo {tmp_path}; exit; fi\n'
        f'echo "arguments: $*"\ncat {tmp_path}/summary >&2\nexit {status}\n',
        encoding="utf-8",
    )
    bazel.chmod(0o755)
    environment = {**os.environ, "PTERON_BAZEL": str(bazel)}
    environment.pop("BAZEL_REAL", None)
    done = subprocess.run([".ci/run"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.returncode


def test_counts_cases_and_says_why_some_were_skipped(tmp_path: Path) -> None:
    summary = (
        "//a:test_py   PASSED in 2s\n//c:test_cpp    (cached) FAILED in 2s\n//c:test_x  SKIPPED\n"
    )
    reports = {"a__test_py__shard_1_of_2": PYTEST, "a__test_py__shard_2_of_2": PYTEST}
    lines, status = run(tmp_path, summary, 3, **reports, c__test_cpp=GOOGLETEST, c__gone=PYTEST)
    assert lines[-7:] == [
        "",
        "skipped  why",
        "      3  no CUDA device",
        "      1  disabled",
        "      1  target not compatible with this machine or its flags",
        "",
        "3 passed, 1 failed, 5 skipped",
    ]
    assert status == 3


def test_a_target_without_a_report_is_one_case(tmp_path: Path) -> None:
    lines, status = run(tmp_path, SUMMARY, 3, c__test_failed=PYTEST, c__test_slow="<testsu")
    assert lines[0] == "arguments: test //..."
    assert lines[-1] == "4 passed, 4 failed, 2 skipped"
    assert status == 3


_ALL_SKIPPED = """\
<testsuites><testsuite><testcase name="a"><skipped message="no CUDA device"></skipped></testcase>
<testcase name="b" status="notrun" result="suppressed" /></testsuite></testsuites>
"""


def test_a_target_that_skips_all_its_cases_did_not_pass(tmp_path: Path) -> None:
    summary = (
        "//a:test_all  PASSED in 2s\n//a:test_cached  (cached) PASSED in 2s\n"
        "//a:test_sharded  PASSED in 2s\n//a:test_some  PASSED in 2s\n"
        "//a:test_empty  PASSED in 2s\n//a:test_without_report  PASSED in 2s\n"
        "//a:test_incompatible  SKIPPED\n//a:test_killed  TIMEOUT in 9s\n"
    )
    reports = {
        "a__test_all": _ALL_SKIPPED,
        "a__test_cached": _ALL_SKIPPED,
        "a__test_sharded__shard_1_of_2": _ALL_SKIPPED,
        "a__test_sharded__shard_2_of_2": PYTEST,
        "a__test_some": PYTEST,
        "a__test_empty": "<testsuites></testsuites>",
        "a__test_killed": _ALL_SKIPPED,
    }
    lines, _ = run(tmp_path, summary, 3, **reports)
    assert lines[-6:] == [
        "3 of 8 test targets skipped all their cases:",
        "  //a:test_all",
        "  //a:test_cached",
        "  //a:test_empty",
        "",
        "3 passed, 1 failed, 12 skipped",
    ]


def test_nothing_is_said_of_targets_that_ran(tmp_path: Path) -> None:
    lines, _ = run(tmp_path, "//a:test_a  PASSED in 1s\n//b:test_b  SKIPPED\n", 0, a__test_a=PYTEST)
    assert not any("test targets" in line for line in lines)
    assert lines[-1] == "1 passed, 0 failed, 2 skipped"


def test_green(tmp_path: Path) -> None:
    lines, status = run(tmp_path, "//a:test_a  PASSED in 0.1s\n", 0)
    assert (lines[-1], status) == ("1 passed, 0 failed", 0)


def test_a_broken_build_counts_nothing_and_fails(tmp_path: Path) -> None:
    lines, status = run(tmp_path, "ERROR: //a:b: no such target\n", 1)
    failed = "0 passed, 0 failed, and the build failed: see the errors above"
    assert (lines[-1], status) == (failed, 1)


def test_the_readme_has_the_same_command() -> None:
    assert "tools/bazel test //..." in Path("README.md").read_text(encoding="utf-8")
