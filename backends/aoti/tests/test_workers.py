"""Pools and compilers that end with their caller; real processes and signals."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.compile_worker import subproc_pool

from pteron.backends.aoti import inductor, workers
from tests.pool.processes import begin, marked, processes_with

SLEEPERS = """
import subprocess, sys, threading, time
from pteron.backends.aoti import workers

def sleep():
    # A compiler that starts another process, and has begun to write.
    script = "echo > $0; sleep 300 & sleep 300; wait"
    workers.run(["sh", "-c", script, sys.argv[2]], output=sys.argv[2])

def nested():
    with workers.Workers(2) as pool:
        for job in [pool.submit(sleep) for _ in range(20)]:
            job.result()

def busy():
    while True:
        sum(range(1000))

def deaf():
    # As in the callback of a weak reference, where exceptions are ignored.
    try:
        busy()
    except SystemExit:
        busy()

def warm():
    workers.start(sleep)
    busy()

print("begun", flush=True)
with workers.Workers(2) as pool:
    jobs = [pool.submit(globals()[sys.argv[1]]) for _ in range(5)]
    if len(sys.argv) > 3:
        jobs[0].result()
"""


COMPILE_WORKERS = """
import operator, os, sys
from torch._inductor.async_compile import AsyncCompile
from pteron.backends.aoti import inductor, workers

def run(*arguments):
    with inductor.compile_workers_started_by(workers.ProcessOfLibrary), workers.Workers(1) as pool:
        job = pool.submit(lambda: AsyncCompile.process_pool().submit(*arguments).result())
        print("begun", flush=True)
    return job.result()

try:
    print(run(os.system, f"touch {sys.argv[2]}; sleep 300"))
except KeyboardInterrupt:
    if sys.argv[1] != "goes on":
        raise
    print(run(operator.add, 1, 2))
"""


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


mark = pytest.fixture(marked)


def start(mark: str, *arguments: str, script: str = SLEEPERS) -> subprocess.Popen[str]:
    return begin(mark, script, *arguments, TORCHINDUCTOR_COMPILE_THREADS="2")


@pytest.mark.parametrize("waits", ["at the end", "for a result"])
@pytest.mark.parametrize("jobs", ["sleep", "nested", "busy", "deaf", "warm"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_all_ends_with_the_process(
    mark: str, number: signal.Signals, jobs: str, waits: str, tmp_path: Path
) -> None:
    output = tmp_path / ".new-1"
    process = start(mark, jobs, str(output), *(["result"] if waits == "for a result" else []))
    if jobs not in ("busy", "deaf"):
        assert wait_for(output.exists, 20)
    time.sleep(0.1)
    sent = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=20)[1]
    assert time.monotonic() - sent < 2
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert "SystemExit" not in errors
    assert wait_for(lambda: not processes_with(mark), 1)
    if number != signal.SIGINT:  # the cache removes it, see its tests
        assert wait_for(lambda: not output.exists(), 1)


def test_a_compiler_ends_whose_id_is_not_known(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SystemExit may be raised in a thread when it has started a process and not noted which."""
    output, construct = tmp_path / ".new-1", subprocess.Popen.__init__

    def interrupted(process: Any, *args: Any, **kwargs: Any) -> None:
        construct(process, *args, **kwargs)
        process.pid, process.returncode = None, 0
        assert wait_for(output.exists, 20)
        raise SystemExit

    monkeypatch.setattr(subprocess.Popen, "__init__", interrupted)
    with pytest.raises(SystemExit):
        workers.run(
            ["sh", "-c", "echo > $0; sleep 300 & sleep 300; wait", str(output)],
            output=str(output),
            environment={**os.environ, mark: "1"},
        )
    assert wait_for(lambda: not processes_with(mark), 5)
    assert not output.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("seconds", [0.0, 1.0, None])
def test_compile_workers_end_with_the_process(
    mark: str, number: signal.Signals, seconds: float | None, tmp_path: Path
) -> None:
    """While they start, and while they compile."""
    begun = tmp_path / "begun"
    process = start(mark, "ends", str(begun), script=COMPILE_WORKERS)
    if seconds is None:
        assert wait_for(begun.exists, 60)
    else:
        time.sleep(seconds)
    sent = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert time.monotonic() - sent < 10, errors  # 2 s on a machine that does nothing else
    assert process.returncode == -number
    assert wait_for(lambda: not processes_with(mark), 1)


def test_compile_workers_after_others_were_ended(mark: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    process = start(mark, "goes on", str(begun), script=COMPILE_WORKERS)
    assert wait_for(begun.exists, 60)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert out == "begun\n3\n", errors
    assert wait_for(lambda: not processes_with(mark), 1)


def test_what_a_command_says_and_returns(tmp_path: Path) -> None:
    script = "cat; echo out; echo error >&2; pwd; exit 3"
    done = workers.run(["sh", "-c", script], text="in\n", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"in\nout\n{tmp_path}\n", "error\n")
    done = workers.run(["sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "", "$x", "*"])
    assert (done.returncode, done.stdout) == (0, "a b||$x|*|")
    assert workers.run(["sh", "-c", "kill -KILL $$"]).returncode != 0


def test_an_error_waits_for_the_others() -> None:
    done = []

    def slow() -> None:
        time.sleep(0.2)
        done.append(1)

    with pytest.raises(ValueError, match="told"), workers.Workers(2) as pool:
        pool.submit(slow)
        raise ValueError("told")
    assert done == [1]
    with workers.Workers(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]


def test_other_pools_go_on() -> None:
    found: list[int] = []
    begun = threading.Event()

    def other() -> None:
        with workers.Workers(1) as pool:
            begun.set()
            found.append(pool.submit(lambda: workers.run(["sleep", "0.3"]).returncode).result())

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with pytest.raises(KeyboardInterrupt), workers.Workers(1) as pool:
        job = pool.submit(lambda: workers.run(["sleep", "100"]))
        time.sleep(0.05)
        raise KeyboardInterrupt
    thread.join()
    assert found == [0]
    assert isinstance(job.exception(1), SystemExit)


def test_compile_workers_with_jobs_are_kept() -> None:
    with (
        torch._inductor.config.patch(quiesce_async_compile_time=0.2),
        inductor.compile_workers_started_by(workers.ProcessOfLibrary),
    ):
        pool = subproc_pool.SubprocPool(1, quiesce=True)
        try:
            before = pool.submit(os.getpid).result()
            pool.submit(time.sleep, 2).result()
            assert pool.submit(os.getpid).result() == before
        finally:
            pool.shutdown()
