"""Processes that fork, and interpreters beside the main one."""

import importlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pteron.runtime import InvalidStateError, Runtime
from pteron.runtime.tests.program_builder import build_program, copy_program, exchange_method


def ends_well_in_a_child(work: Callable[[], bool]) -> bool:
    """What `work` says in a fork; False where it raises or takes more than ten seconds."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
        os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


class Slow:
    """An input whose conversion, and so the call it is given to, lasts until `end` is set."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self.began, self.end = threading.Event(), threading.Event()

    def __dlpack__(self, **arguments: Any) -> object:
        self.began.set()
        self.end.wait(30)
        return self._data.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()


@pytest.fixture
def slow() -> Iterator[Slow]:
    value = Slow(np.ones((2, 3), np.float32))
    yield value
    value.end.set()


def test_a_method_that_ran_at_the_fork_is_refused_in_the_child(slow: Slow) -> None:
    program = Runtime.get().load_program(copy_program())
    method = program.load_method("forward")
    thread = threading.Thread(target=method.execute, args=([slow],))
    thread.start()
    assert slow.began.wait(30)
    x = np.full((2, 3), 2, np.float32)

    def works() -> bool:
        for call in (lambda: method.execute([x]), method.reset_state):
            with pytest.raises(InvalidStateError, match="forked; load it again"):
                call()
        return bool((program.load_method("forward").execute([x])[0] == x).all())

    assert ends_well_in_a_child(works)
    slow.end.set()
    thread.join()
    assert (method.execute([x])[0] == x).all()  # the parent's is as before
    assert ends_well_in_a_child(lambda: bool((method.execute([x])[0] == x).all()))


def test_so_is_a_session_of_which_another_method_ran(slow: Slow) -> None:
    slow._data = np.ones(2, np.float32)
    program = Runtime.get().load_program(build_program(exchange_method("exchange")))
    session = program.session()
    one, two = (program.load_method("exchange", session=session) for _ in range(2))
    thread = threading.Thread(target=one.execute, args=([slow],))
    thread.start()
    assert slow.began.wait(30)

    def works() -> bool:
        for call in (lambda: two.execute([np.ones(2, np.float32)]), session.reset):
            with pytest.raises(InvalidStateError):
                call()
        return len(program.load_method("exchange").execute([np.ones(2, np.float32)])) == 1

    assert ends_well_in_a_child(works)
    slow.end.set()
    thread.join()


def test_threads_of_a_child_wait_for_each_other() -> None:
    method = Runtime.get().load_program(copy_program()).load_method("forward")
    x = np.ones((2, 3), np.float32)

    def works() -> bool:
        threads = [
            threading.Thread(target=lambda: [method.execute([x]) for _ in range(100)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return True

    assert ends_well_in_a_child(works)


def test_loads_of_other_threads_do_not_stop_a_child() -> None:
    data, stop = copy_program(), threading.Event()

    def load() -> None:
        while not stop.is_set():
            Runtime.get().load_program(data).load_method("forward")

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()

    def works() -> bool:
        x = np.ones((2, 3), np.float32)
        method = Runtime.get().load_program(data).load_method("forward")
        return bool((method.execute([x])[0] == x).all())

    try:
        assert all([ends_well_in_a_child(works) for _ in range(40)])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_modules_that_others_import_do_not_stop_a_child(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"slow_to_import_{i}" for i in range(2)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("import time\ntime.sleep(0.3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    while not all(name in sys.modules for name in names):
        time.sleep(0.001)

    def works() -> bool:
        return all(importlib.import_module(name) for name in names)

    assert ends_well_in_a_child(works)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("first", ["", "import pteron.runtime.python._native"])
def test_a_sub_interpreter_is_refused(first: str) -> None:
    code = f"""
        try:
            import _xxsubinterpreters as interpreters
        except ModuleNotFoundError:
            import _interpreters as interpreters
        {first}
        code = '''if True:
            try:
                from pteron.runtime import Runtime
                Runtime.get()
            except ImportError as error:
                print(error, flush=True)
        '''
        interpreters.run_string(interpreters.create(), code)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    # CPython 3.13 refuses it itself.
    refusals = ("main interpreter of a process only", "does not support loading in subinterpreters")
    assert any(refusal in done.stdout for refusal in refusals), done.stderr
