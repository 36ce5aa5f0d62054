"""Interpreters that end while something of the runtime is alive or at work."""

import os
import pathlib
import subprocess
import sys

import pytest

from pteron.runtime.tests.program_builder import copy_program

_START = """
import builtins, sys, threading, time
import numpy as np
from pteron.runtime import Runtime
from pteron.runtime.python import errors

class OnlyDlpack:
    def __dlpack__(self, **arguments):
        time.sleep(0.001)
        return x.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return x.__dlpack_device__()

class SlowDtype(OnlyDlpack):
    dtype = property(lambda self: time.sleep(0.001))

def slow_error(*arguments):
    time.sleep(0.001)
    return RuntimeError()

def at_work(call):
    def run():
        while True:
            try:
                call()
            except RuntimeError:
                pass
    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()
    time.sleep(0.1)

path = {path!r}
x = np.ones((2, 3), np.float32)
program = Runtime.get().load_program(path)
method = program.load_method("forward")
"""


@pytest.mark.parametrize(
    "script",
    [
        "builtins.kept = program, method, method.session(), method.execute([x])",
        "at_work(lambda: method.execute([x]))",
        "at_work(lambda: program.load_method('forward').execute([x]))",
        "at_work(lambda: method.execute([OnlyDlpack()]))",
        "at_work(lambda: method.execute([SlowDtype()]))",
        "at_work(lambda: program.load_method('forward'))",
        "at_work(lambda: Runtime.get().load_program(path))",
        "data = open(path, 'rb').read(); at_work(lambda: Runtime.get().load_program(data))",
        "errors.error_of_code = slow_error; at_work(lambda: method.execute([]))",
        "errors.error_of_code = slow_error; at_work(lambda: Runtime.get().load_program('missing'))",
    ],
)
def test_exit_is_silent(script: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(copy_program())
    code = _START.format(path=str(path)) + script
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
