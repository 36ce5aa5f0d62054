"""Groups of random modules in processes of their own, which may crash or hang.

    pool = Workers(jobs=4, limit=300)
    for outcome in pool.run(tasks, deadline=time.monotonic() + 3600):
        ...

A process imports torch once and does one group after the other. The modules of a group that fails,
in whatever way, are run one by one, so that those that fail are known; likewise where lowering had
to give up templates for the whole group, which it warns of.
"""

import contextlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from tests.random.configurations import configurations
from tests.random.group import Outcome, run_group

Task = tuple[str, str, tuple[int, ...]]
"""A device, the name of a configuration, and the seeds of a group."""

_PROCESSES = multiprocessing.get_context("spawn")


def run_task(task: Task) -> Outcome:
    """Runs a group in this process; what fails as a whole fails for each of its seeds."""
    device, name, seeds = task
    try:
        return run_group(configurations(device)[name], seeds)
    except Exception as error:
        return _failed(task, f"{type(error).__name__}: {error}")


def one_by_one(task: Task) -> list[Task]:
    """The members of a group as groups."""
    device, name, seeds = task
    return [(device, name, (seed,)) for seed in seeds]


def with_members(whole: Outcome, members: Sequence[Outcome]) -> Outcome:
    """What came of a group that failed, once its members were run one by one.

    A member that fails only among the others is still a failure.
    """
    errors: dict[int, str] = {}
    whole.warnings = [f"{m.seeds[0]}: {text}" for m in members for text in m.warnings]
    for member in members:
        (seed,) = member.seeds
        whole.families |= member.families
        for name, count in member.templates.items():
            whole.templates[name] = whole.templates.get(name, 0) + count
        whole.shims = sorted({*whole.shims, *member.shims})
        if error := member.errors.get(seed, ""):
            errors[seed] = error
    if not errors:
        errors = {seed: f"only among {whole.seeds}: {e}" for seed, e in whole.errors.items()}
    whole.errors = errors
    return whole


def _failed(task: Task, error: str) -> Outcome:
    _, name, seeds = task
    return Outcome(name, list(seeds), errors=dict.fromkeys(seeds, error))


class _Worker:
    """A process, started when it is first needed and after each one that ended."""

    def __init__(self, core: int | None) -> None:
        self._core = core
        self._process: Any = None
        self._connection: Any = None

    def run(self, task: Task, limit: float) -> Outcome:
        if self._process is None:
            self._connection, theirs = _PROCESSES.Pipe()
            self._process = _PROCESSES.Process(
                target=_serve, args=(theirs, self._core), daemon=True
            )
            self._process.start()
            theirs.close()
        try:
            self._connection.send(task)
            if self._connection.poll(limit):
                return self._connection.recv()
            error = f"it took longer than {limit:.0f} s"
        except (EOFError, OSError):
            self._process.join(5)
            error = f"the process ended with status {self._process.exitcode}"
        self._process.kill()
        self.stop()
        return _failed(task, error)

    def stop(self) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.join()
            self._process = None


def _serve(connection: Connection, core: int | None) -> None:
    """Runs what comes through the connection until it is closed."""
    import torch

    if core is not None:  # or each would compile on all cores
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(run_task(connection.recv()))


class Workers:
    """`jobs` processes, each of which may take `limit` seconds for a group."""

    def __init__(self, jobs: int, limit: float) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._limit = limit
        self._workers = [
            _Worker(cores[job % len(cores)] if jobs > 1 else None) for job in range(jobs)
        ]

    def run(self, tasks: Sequence[Task], deadline: float) -> Iterator[Outcome]:
        """Outcomes as they come; tasks that are not done by `deadline` have none."""
        todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            todo.put(task)
        done: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()

        def work(worker: _Worker) -> None:
            with contextlib.suppress(queue.Empty, _NoTimeLeft):
                while True:
                    done.put(self._run(worker, todo.get_nowait(), deadline))
            worker.stop()
            done.put(None)

        for worker in self._workers:
            threading.Thread(target=work, args=(worker,), daemon=True).start()
        working = len(self._workers)
        while working:
            outcome = done.get()
            if outcome is None:
                working -= 1
            else:
                yield outcome

    def _run(self, worker: _Worker, task: Task, deadline: float) -> Outcome:
        def run(task: Task) -> Outcome:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _NoTimeLeft
            outcome = worker.run(task, min(self._limit, left))
            if outcome.errors and time.monotonic() >= deadline:
                raise _NoTimeLeft
            return outcome

        outcome = run(task)
        if (outcome.errors or outcome.warnings) and len(task[2]) > 1:
            return with_members(outcome, [run(member) for member in one_by_one(task)])
        return outcome


class _NoTimeLeft(Exception):
    """The deadline has come."""
