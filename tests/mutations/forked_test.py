"""Runs a Python test in a child of this process, with one file's text replaced.

A child has torch already, which is most of the time that such a test takes; and nothing is written
anywhere, since the child compiles the mutated text where it would have read the file::

    outcome = run("//exir/tests:test_state", "", mutation, timeout=600)

The parent must not have imported what is mutated, nor started threads.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import sys
import tempfile
from importlib import machinery
from typing import Any

from tests.mutations.mutation import Mutation
from tests.mutations.outcome import Outcome

_ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]  # of the tree that Bazel laid out


def warm_up() -> None:
    """Imports what nearly every test needs and no mutation touches."""
    import pytest  # noqa: F401
    import torch._inductor.compile_fx
    import torch.export
    import torch.fx.passes.infra.partitioner  # noqa: F401


def run(test: str, case: str, mutation: Mutation | None, timeout: float) -> Outcome:
    """What comes of those cases of `test` that `case` selects, as pytest's -k takes it."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(reader)
            status = 1
            try:
                _run_in_child(test, case, mutation, pathlib.Path(folder), writer)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        try:
            return _outcome(reader, timeout)
        finally:
            os.close(reader)
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _outcome(reader: int, timeout: float) -> Outcome:
    if not select.select([reader], [], [], timeout)[0]:
        return Outcome("failed", "timeout")
    data = b""
    while part := os.read(reader, 1 << 16):
        data += part
    if not data:
        return Outcome("failed", "the process ended")
    return Outcome(*json.loads(data))


def _run_in_child(
    test: str, case: str, mutation: Mutation | None, folder: pathlib.Path, writer: int
) -> None:
    os.setpgid(0, 0)
    with (folder / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.chdir(_ROOT)
    os.environ.update(HOME=str(folder), TMPDIR=str(folder))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    if mutation is not None:
        _replace(mutation)
    import pytest

    package, _, target = test.removeprefix("//").partition(":")
    seen = _Seen()
    tree = "../_pteron_py"  # as //tools/build:names.bzl says
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={tree}"]
    options += [f"--basetemp={folder}/pytest", *(["-k", case] if case else [])]
    code = pytest.main([*options, f"{tree}/pteron/{package}/{target}.py"], plugins=[seen])
    os.write(writer, json.dumps(seen.outcome(int(code))).encode())


def _replace(mutation: Mutation) -> None:
    """Makes imports of the mutation's file compile the mutated text."""
    get_code = machinery.SourceFileLoader.get_code

    def mutated(self: machinery.SourceFileLoader, fullname: str) -> Any:
        path = pathlib.Path(self.path)
        if not path.as_posix().endswith(f"/{mutation.file}"):
            return get_code(self, fullname)
        text = path.read_text().replace(mutation.before, mutation.after)
        return compile(text, str(path), "exec", dont_inherit=True)

    setattr(machinery.SourceFileLoader, "get_code", mutated)  # noqa: B010


class _Seen:
    """A pytest plugin that notes what failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.passed = 0

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(str(report.longrepr).strip().splitlines()[-1])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid.rpartition("::")[2])
        elif report.when == "call" and report.passed:
            self.passed += 1

    def outcome(self, code: int) -> Outcome:
        if self.broken:
            return Outcome("broken", self.broken[0])
        if self.failed:
            return Outcome.of_cases(self.failed)
        if code != 0 or not self.passed:
            return Outcome("broken", f"{self.passed} cases passed, pytest ended with {code}")
        return Outcome("passed")
