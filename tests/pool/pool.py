"""Tasks in processes of their own, which may crash or hang.

    pool = Pool(function, failed, jobs=4, limit=300)
    for result in pool.run(tasks, deadline=time.monotonic() + 3600):
        ...

A process calls `function` for one task after the other, or for one only (`fresh`). If it ends, or a
task takes longer than the limit, the result is what `failed` makes of the task and the reason, and
the next task has a new process.
"""

import contextlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_PROCESSES = multiprocessing.get_context("spawn")


class Pool(Generic[Task, Result]):
    """`jobs` processes, each of which may take `limit` seconds for a task.

    Args:
        function: does a task; of a module, so that another process can import it.
        failed: makes a result of a task and the reason why it has none.
        jobs: so many processes at a time.
        limit: seconds.
        fresh: whether each task has a process that has done nothing before.
    """

    def __init__(
        self,
        function: Callable[[Task], Result],
        failed: Callable[[Task, str], Result],
        *,
        jobs: int,
        limit: float,
        fresh: bool = False,
    ) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._failed, self._limit, self._fresh = failed, limit, fresh
        self._workers: list[_Worker] = [
            # Else each would compile on all cores.
            _Worker(function, cores[job % len(cores)] if jobs > 1 else None)
            for job in range(jobs)
        ]

    def run(self, tasks: Sequence[Task], deadline: float) -> Iterator[Result]:
        """Results as they come; tasks that are not done by `deadline` have none."""
        todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            todo.put(task)
        done: queue.SimpleQueue[Result | None] = queue.SimpleQueue()

        def work(worker: _Worker) -> None:
            with contextlib.suppress(queue.Empty, NoTimeLeft):
                while True:
                    done.put(self._finish(worker, todo.get_nowait(), deadline))
            worker.stop()
            done.put(None)

        for worker in self._workers:
            threading.Thread(target=work, args=(worker,), daemon=True).start()
        working = len(self._workers)
        while working:
            result = done.get()
            if result is None:
                working -= 1
            else:
                yield result

    def follow(self, task: Task, result: Result, run: Callable[[Task], Result]) -> Result:
        """What becomes of a result; `run` does further tasks in the same process."""
        return result

    def _finish(self, worker: "_Worker", task: Task, deadline: float) -> Result:
        def run(task: Task) -> Result:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoTimeLeft
            try:
                result: Result = worker.run(task, min(self._limit, left))
            except WorkerFailed as error:
                if time.monotonic() >= deadline:
                    raise NoTimeLeft from error
                return self._failed(task, str(error))
            if self._fresh:
                worker.stop()
            return result

        return self.follow(task, run(task), run)


class WorkerFailed(Exception):
    """A process ended, or took too long."""


class NoTimeLeft(Exception):
    """The deadline has come."""


class _Worker:
    """A process, started when it is first needed and after each one that ended."""

    def __init__(self, function: Callable[[Any], Any], core: int | None) -> None:
        self._function, self._core = function, core
        self._process: Any = None
        self._connection: Any = None

    def run(self, task: Any, limit: float) -> Any:
        if self._process is None:
            self._connection, theirs = _PROCESSES.Pipe()
            self._process = _PROCESSES.Process(
                target=_serve, args=(theirs, self._function, self._core), daemon=True
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
        raise WorkerFailed(error)

    def stop(self) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.join()
            self._process = None


def _serve(connection: Connection, function: Callable[[Any], Any], core: int | None) -> None:
    """Does what comes through the connection until it is closed."""
    import torch

    if core is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(function(connection.recv()))
