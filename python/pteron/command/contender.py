"""Benchmark contenders, each in its own process; alternating runs and tables.

The parent starts them and requests calls, so that they alternate on the same machine::

    with Contender("eager", "run_with_torch", "image.npz") as eager:
        load_s = eager.begun()["load_s"]
        answers = by_turns({"eager": lambda: eager.calls(10)}, turns=30)["eager"]
        seconds = answers[0]["seconds"]

and the named module, run with these arguments, serves requests until its parent exits::

    serve(lambda: functools.partial(model, image))
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

#: A pause in which spinning threads of the previous contender park.
_PAUSE_S = 0.05


class Contender:
    """The parent's handle of a contender process, which ends with the `with` block.

    Args:
        name: for messages.
        module: what `python -m` runs; it calls `serve`.
        arguments: its command line.
        threads: OMP_NUM_THREADS of the process; None leaves it as it is.
    """

    def __init__(self, name: str, module: str, *arguments: str, threads: int | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        self.name = name
        self._messages = tempfile.TemporaryFile("w+")  # a pipe might fill up
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.communicate()
        self._messages.close()

    def begun(self) -> dict[str, Any]:
        """Load and first-call times (`load_s`, `first_call_s`), and the `about` of `serve`. Waits
        for them."""
        return self._answer()

    def calls(self, count: int, callers: int = 1, pause_s: float = 0) -> dict[str, Any]:
        """Runs calls: `seconds` of each, `wall_s` of all, number of working `threads`, and peak
        `memory` in bytes.

        Args:
            count: of each caller.
            callers: threads that call at the same time; above 1, `threads` are those left after.
            pause_s: that a caller is idle before each call.
        """
        assert self.process.stdin
        print(count, callers, pause_s, file=self.process.stdin, flush=True)
        return self._answer()

    def calls_in(self, seconds: float) -> int:
        """The number of calls that take about `seconds`, at least one; measured with three
        calls."""
        return max(1, round(seconds / max(min(self.calls(3)["seconds"]), 1e-7)))

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self._messages.seek(0)
        last = self._messages.read().strip().splitlines()[-1:]
        raise RuntimeError(f"{self.name} ends with {status}: {''.join(last)}")


def by_turns(ways: Mapping[str, Callable[[], _T]], turns: int) -> dict[str, list[_T]]:
    """The results of each contender's turns.

    All alternate, so that other load affects them equally, in reverse order every other time, since
    the first one finds a cooler machine.
    """
    found: dict[str, list[_T]] = {name: [] for name in ways}
    order = list(ways.items())
    for _ in range(turns):
        for name, way in order:
            found[name].append(way())
        order.reverse()
    return found


def text_table(rows: Sequence[Sequence[str | float | None]], left: int = 1, least: int = 0) -> str:
    """Formats rows as a table; the first row is the header.

    Args:
        rows: cells; floats are shown with four digits, None as a dash.
        left: number of left-aligned columns; others are right-aligned.
        least: minimum column width.
    """
    texts = [[_cell(cell) for cell in row] for row in rows]
    widths = [
        max(least, *(len(cell) + 1 for cell in column)) for column in zip(*texts, strict=True)
    ]
    return "\n".join(
        "".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in texts
    )


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def serve(
    load: Callable[[], Callable[[], Any]],
    about: Callable[[Any], Mapping[str, Any]] = lambda first: {},
) -> None:
    """Loads, calls once, then runs the calls that each line of stdin requests.

    Args:
        load: returns the callable; callers above 1 call it from threads of their own.
        about: further data for the parent, computed from the first result.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps output of libraries apart from answers
    begin = time.perf_counter()
    call = load()
    loaded = time.perf_counter()
    first = call()
    begun = {"load_s": loaded - begin, "first_call_s": time.perf_counter() - loaded}
    print(json.dumps({**begun, **about(first)}), file=answers, flush=True)
    del first
    for line in sys.stdin:
        time.sleep(_PAUSE_S)
        count, callers, pause_s = line.split()
        calls = functools.partial(_calls, call, int(count), float(pause_s))
        before = _busy()
        if callers == "1":
            found = [calls(threading.Barrier(1))]
        else:
            with ThreadPoolExecutor(int(callers)) as pool:
                found = list(pool.map(calls, [threading.Barrier(int(callers))] * int(callers)))
        starts = [start for times in found for start, _ in times]
        ends = [end for times in found for _, end in times]
        answer = {
            "seconds": [end - start for times in found for start, end in times],
            "wall_s": max(ends) - min(starts),
            "threads": _worked(before),
            "memory": _memory(),
        }
        print(json.dumps(answer), file=answers, flush=True)


def _calls(
    call: Callable[[], Any], count: int, pause_s: float, together: threading.Barrier
) -> list[tuple[float, float]]:
    """Start and end of each call of one caller."""
    call()  # wakes its threads
    together.wait()
    times = []
    for _ in range(count):
        if pause_s:
            time.sleep(pause_s)
        start = time.perf_counter()
        call()
        times.append((start, time.perf_counter()))
    return times


def _busy() -> dict[str, int]:
    """CPU time in nanoseconds per thread of this process."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            found[task.name] = int((task / "schedstat").read_text().split()[0])
        except OSError:  # it has ended
            continue
    return found


def _worked(before: Mapping[str, int]) -> int:
    """Threads that since `before` ran at least a tenth as long as the busiest one."""
    ran = [now - before.get(task, 0) for task, now in _busy().items()]
    return sum(10 * nanoseconds >= max(ran) for nanoseconds in ran)


def _memory() -> int:
    """Peak memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
