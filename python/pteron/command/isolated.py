"""Runs code of a program in a process without rights, which ends with it.

    outputs = isolated.run(lambda: program.load_method("forward").execute(inputs), count=1)

The process is a fork, so the work sees what was made before; only arrays come back.
"""

import io
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pteron.runtime.python._native as _native
from pteron.command import values

_SECONDS_TO_END = 10.0


def run(
    work: Callable[[], Sequence[Any]],
    count: int,
    memory_nbytes: int,
    run_time: float,
) -> list[Any]:
    """`count` arrays that `work` returns, calculated in a process of its own.

    Args:
      work: what loads and runs code that is not trusted.
      count: how many arrays it returns.
      memory_nbytes: what the process may allocate; the arrays may not be larger, either.
      run_time: seconds after which, and a few more, the process is killed.

    Raises:
      RuntimeError: the process failed, was ended, or wrote something else.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(work, write_end, memory_nbytes)
    os.close(write_end)
    try:
        data = _read(read_end, memory_nbytes, time.monotonic() + run_time + _SECONDS_TO_END)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(read_end)
        _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        why = "it made a forbidden system call" if number == signal.SIGSYS else number.name
        raise RuntimeError(f"the isolated program was ended: {why}")
    if status:
        text = data.decode("utf-8", "replace") or f"exit code {os.waitstatus_to_exitcode(status)}"
        shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
        raise RuntimeError(f"the isolated program failed: {shown}")
    stream = io.BytesIO(data)
    try:
        arrays = [np.lib.format.read_array(stream, allow_pickle=False) for _ in range(count)]
    except (ValueError, MemoryError, SyntaxError, TypeError, OverflowError) as error:
        raise RuntimeError("the isolated program wrote something else than outputs") from error
    return arrays


def _child(work: Callable[[], Sequence[Any]], pipe: int, memory: int) -> None:
    """Ends the process: with 0 after the arrays, with 1 after the text of an error."""
    try:
        os.dup2(pipe, 3)  # before what may have its number, if stdin or stdout was closed
        with open(3, "wb") as stream:
            try:
                null = os.open(os.devnull, os.O_RDWR)
                for descriptor in range(3):
                    os.dup2(null, descriptor)
                os.closerange(4, os.sysconf("SC_OPEN_MAX"))
                _native.isolate(memory)
                outputs = io.BytesIO()
                for value in work():
                    np.lib.format.write_array(outputs, values.to_numpy(value), allow_pickle=False)
                stream.write(outputs.getbuffer())
                code = 0
            except BaseException as error:
                stream.write(f"{type(error).__name__}: {error}".encode(errors="replace"))
                code = 1
    except BaseException:
        code = 2
    finally:
        os._exit(code)


def _read(pipe: int, most: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) <= most:
        wait = min(deadline - time.monotonic(), 1e6)
        if wait <= 0 or not select.select([pipe], [], [], wait)[0]:
            raise RuntimeError("the isolated program took too long and was ended")
        part = os.read(pipe, 1 << 20)
        if not part:
            return bytes(data)
        data += part
    raise RuntimeError(f"the isolated program wrote more than {most} bytes")
