"""Thread pools and compiler processes that end with their caller.

    with Workers(4) as pool:
        jobs = [pool.submit(run, ["g++", ...]) for ...]

If Ctrl-C or another exception that is not an `Exception` leaves the block, it ends immediately:
pending jobs are dropped, compilers and their children are killed, and threads running Python code
get a `SystemExit`. Nested pools end with the outermost one.

A compiler does not outlive this process, however that ends (SIGTERM, SIGKILL): a shell in its
process group waits for EOF of a pipe that this process holds open, then kills the group and removes
the unfinished file.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Seconds that threads get to stop: those that wait in C code (for Inductor's worker processes) do
#: not notice, those that run a compiler remove its file once it is dead, on a busy machine late.
_PATIENCE = 1.5
_PATIENCE_WITH_COMPILERS = 20.0

#: Seconds after which a waiting main thread looks for signals.
_POLL = 0.2

#: Seconds after which the exception is raised again: weak reference callbacks ignore exceptions.
_AGAIN = 0.4

#: Arguments: the pipe, the file to remove or nothing, what is done with the watching shell at the
#: end, and the command. GCC and its subprocesses remove their files on SIGTERM.
_WATCHED = """
{ trap "" TERM; read _; kill -TERM 0; rm -f "$2"; sleep 0.1; rm -f "$2"; kill -KILL 0; } \
    <"/dev/fd/$1" >/dev/null 2>&1 &
watcher=$! end=$3
shift 3
"$@"
status=$?
$end $watcher
exit $status
"""


#: The same for a process that is not awaited here and must be a child of this one.
_WATCHED_CHILD = """
{ trap "" TERM; read _; kill -KILL 0; } <"/dev/fd/$1" >/dev/null 2>&1 &
shift
exec "$@"
"""


class _Scope:
    """The state of one outermost pool."""

    def __init__(self) -> None:
        self.has_ended = False
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._busy: set[int] = set()

    def check(self) -> None:
        if self.has_ended:
            raise SystemExit

    @contextlib.contextmanager
    def process(self, process: subprocess.Popen[str]) -> Any:
        """Registers a process that runs or is about to, which end() kills."""
        with self._lock:
            self._processes.add(process)
        try:
            self.check()
            yield
        except BaseException:
            _kill(process)
            raise
        finally:
            with self._lock:
                self._processes.discard(process)
        self.check()

    def do(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Runs a job of a pool on one of its threads."""
        self.check()
        _thread.scope = self
        with self._lock:
            self._busy.add(threading.get_ident())
        try:
            return function(*args, **kwargs)
        finally:
            with self._lock:
                self._busy.discard(threading.get_ident())

    def end(self) -> None:
        """Kills compilers, interrupts jobs, and waits for them for a limited time."""
        self.has_ended = True
        began = time.monotonic()
        interrupted: dict[int, float] = {}
        while True:
            now = time.monotonic()
            with self._lock:
                patience = _PATIENCE_WITH_COMPILERS if self._processes else _PATIENCE
                if now - began > patience:
                    return
                for process in self._processes:
                    _kill(process)
                for library in _processes_of_libraries:
                    _kill(library)
                if not self._busy:
                    return
                for thread in self._busy:
                    if now - interrupted.get(thread, -math.inf) > _AGAIN:
                        interrupted[thread] = now
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(thread), ctypes.py_object(SystemExit)
                        )
            time.sleep(0.02)


class _Thread(threading.local):
    scope: _Scope | None = None
    pipe: int | None = None  # of unfinished()


_thread = _Thread()


class Workers(concurrent.futures.ThreadPoolExecutor):
    """A thread pool whose jobs end when its block is left early (see the module's docstring)."""

    def __init__(self, max_workers: int) -> None:
        self._is_outermost = _thread.scope is None
        self._scope = _thread.scope or _Scope()
        self._jobs: list[concurrent.futures.Future[Any]] = []
        super().__init__(max_workers)

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> concurrent.futures.Future[_T]:
        job = super().submit(self._scope.do, fn, *args, **kwargs)  # type: ignore[arg-type]
        self._jobs.append(job)
        return job

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> bool | None:
        try:
            if kind is None or issubclass(kind, Exception):
                # Handlers run on the main thread. A signal that another thread receives does not
                # wake this one.
                while concurrent.futures.wait(self._jobs, timeout=_POLL).not_done:
                    pass
                return super().__exit__(kind, *rest)
        except BaseException:
            self._leave()
            raise
        self._leave()
        return None

    def _leave(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        if self._is_outermost:
            self._scope.end()


def start(function: Callable[[], None]) -> None:
    """Runs it on a daemon thread, which ends with the calling thread's pool."""
    scope = _thread.scope or _Scope()
    threading.Thread(target=scope.do, args=(function,), daemon=True).start()


@contextlib.contextmanager
def unfinished() -> Iterator[None]:
    """The `output` of a command that is run in this block is removed if this process ends in it,
    also once the command has ended: what takes it over does so in the block, by renaming it."""
    with _own_pipe() as _thread.pipe:
        try:
            yield
        finally:
            _thread.pipe = None


def run(
    command: Sequence[str],
    *,
    text: str | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    output: str = "",
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with captured text, for a command that writes the file `output`."""
    scope = _thread.scope or _Scope()
    scope.check()
    # Registered before it starts: SystemExit may come when it has started and its constructor has
    # not returned. If it comes before `pid` is assigned, the end of the pipe is what kills it.
    process: subprocess.Popen[str] = subprocess.Popen.__new__(subprocess.Popen)
    # Its text is in a file: of a pipe that ends early it would compile the beginning.
    text_file = tempfile.TemporaryFile("w+", encoding="utf-8")
    kept = _thread.pipe
    holder = _own_pipe() if kept is None else contextlib.nullcontext(kept)
    end = "kill -KILL" if kept is None else ":"
    with holder as pipe, text_file as stdin, scope.process(process):
        stdin.write(text or "")
        stdin.seek(0)
        process.__init__(  # type: ignore[misc]
            ["/bin/sh", "-c", _WATCHED, "sh", str(pipe), output, end, *command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
            pass_fds=(pipe,),
            start_new_session=True,
        )
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


class ProcessOfLibrary(subprocess.Popen[bytes]):
    """A `Popen` for libraries that start compilers, killed with all its children as in `run`. Pools
    are shared, so the first scope that is left early kills it."""

    def __init__(
        self, args: Sequence[str], *, pass_fds: Sequence[int] = (), **options: Any
    ) -> None:
        pipe = _pipe(os.getpid())
        super().__init__(
            ["/bin/sh", "-c", _WATCHED_CHILD, "sh", str(pipe), *args],
            pass_fds=(*pass_fds, pipe),
            start_new_session=True,
            **options,
        )
        _processes_of_libraries.add(self)

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)  # the watching shell
        return code


_processes_of_libraries: weakref.WeakSet[ProcessOfLibrary] = weakref.WeakSet()


@contextlib.contextmanager
def _own_pipe() -> Iterator[int]:
    """A pipe whose other end closes with this block, or when this process ends."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


@functools.lru_cache(maxsize=1)
def _pipe(process: int) -> int:
    """A pipe whose other end closes when this process ends."""
    reading, _ = os.pipe()
    return reading


def _kill(process: subprocess.Popen[Any]) -> None:
    """If it has started and not ended."""
    if (pid := getattr(process, "pid", None)) and process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
