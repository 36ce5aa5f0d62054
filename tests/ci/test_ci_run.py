"""The count that .ci/run prints, from Bazel's summary, and the status that it hands on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SUMMARY = """\
INFO: Found 9 targets and 8 test targets...
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


def run(tmp_path: Path, summary: str, status: int) -> tuple[list[str], int]:
    """Runs .ci/run over a Bazel that prints a summary and ends with a status."""
    (tmp_path / "summary").write_text(summary, encoding="utf-8")
    bazel = tmp_path / "bazel"
    bazel.write_text(
        f'#!/bin/sh\necho "arguments: $*"\ncat {tmp_path}/summary >&2\nexit {status}\n',
        encoding="utf-8",
    )
    bazel.chmod(0o755)
    environment = {**os.environ, "PTERON_BAZEL": str(bazel)}
    environment.pop("BAZEL_REAL", None)
    done = subprocess.run([".ci/run"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines(), done.returncode


def test_the_last_line_counts_targets(tmp_path: Path) -> None:
    lines, status = run(tmp_path, SUMMARY, 3)
    assert lines[0] == "arguments: test //..."
    assert lines[-1] == "3 passed, 4 failed, 1 skipped"
    assert status == 3


def test_green(tmp_path: Path) -> None:
    lines, status = run(tmp_path, "//a:test_a  PASSED in 0.1s\n", 0)
    assert (lines[-1], status) == ("1 passed, 0 failed", 0)


def test_a_broken_build_counts_nothing_and_fails(tmp_path: Path) -> None:
    lines, status = run(tmp_path, "ERROR: //a:b: no such target\n", 1)
    failed = "0 passed, 0 failed, and the build failed: see the errors above"
    assert (lines[-1], status) == (failed, 1)


def test_the_readme_has_the_same_command() -> None:
    assert "tools/bazel test //..." in Path("README.md").read_text(encoding="utf-8")
