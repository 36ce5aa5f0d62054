"""Programs that are compared, each in a process of its own.

The parent starts them and asks for one run at a time, so that all take turns on the same machine::

    with Contender("run_with_torch", f"--inputs={inputs}") as torch_process:
        seconds = torch_process.run("eager")

and the program, once it is ready, answers until its parent closes the pipe::

    serve({"eager": lambda: model(image)})
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


class Contender:
    """A program of `examples.quickstart` in a process of its own, which ends with the `with`."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._program = program
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"examples.quickstart.{program}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, name: str) -> float:
        """One run of `name`; its seconds. The first waits until the program is ready."""
        assert self._process.stdin and self._process.stdout
        try:
            print(name, file=self._process.stdin, flush=True)
            return float(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            status = self._process.wait()
            sys.exit(f"{self._program} ended with status {status}; its messages are above.")


#: Threads of who ran before spin for a while; in this pause they go to sleep.
_PAUSE_S = 0.05


def serve(runs: Mapping[str, Callable[[], object]]) -> None:
    """Runs what each line of the standard input names and prints the seconds it took."""
    for line in sys.stdin:
        time.sleep(_PAUSE_S)
        start = time.perf_counter()
        runs[line.strip()]()
        print(time.perf_counter() - start, flush=True)
