"""Limits of a program, and ways to end a run: timeouts, cancel(), signals."""

import io
import math
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from pteron.runtime import (
    CancelledError,
    InvalidArgumentError,
    Limits,
    Method,
    Program,
    PteronError,
    ResourceError,
    Runtime,
    TimedOutError,
)
from pteron.runtime.tests.program_builder import MethodBuilder, build_program, copy_program

ENDLESS = Limits(instructions=None)


def endless() -> bytes:
    """forward(x): x to a mutable buffer, again and again."""
    method = MethodBuilder()
    x = method.input([4])
    state = method.tensor([4], buffer_name="state")
    method.clone(x, state)
    method.jump_false(method.value(False), 0)
    method.output(state)
    return build_program(method)


def load(limits: Limits | None = ENDLESS) -> Method:
    return Runtime.get().load_program(endless(), limits=limits).load_method("forward")


X = np.ones(4, np.float32)


def test_instructions_end_a_loop() -> None:
    for limits in (None, Limits(), Limits(instructions=5)):
        with pytest.raises(ResourceError, match="instructions without an end"):
            load(limits).execute([X])


def test_run_time_ends_a_loop_and_the_method_stays_usable() -> None:
    method = load(Limits(run_time=0.05, instructions=None))
    for _ in range(3):
        start = time.monotonic()
        with pytest.raises(TimedOutError, match="the limit run_time, 0.05 seconds"):
            method.execute([X])
        assert 0.04 < time.monotonic() - start < 1
    method.reset_state()


@pytest.mark.parametrize("timeout", [0, -1, 1e-9, 0.05])
def test_a_timeout_ends_a_call(timeout: float) -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="timeout of this call"):
        load().execute([X], timeout=timeout)
    assert time.monotonic() - start < 1


def test_timeouts_that_are_none() -> None:
    method = Runtime.get().load_program(copy_program()).load_method("forward")
    x = np.zeros((2, 3), np.float32)
    for timeout in (None, math.inf, 1e300, 100):
        method.execute([x], timeout=timeout)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        method.execute([x], timeout=math.nan)
    with pytest.raises(TypeError):
        method.execute([x], timeout="1")  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["run_time", "instructions", "planned_bytes", "load_bytes"])
@pytest.mark.parametrize("value", [-1, math.nan, "1", True])
def test_limits_that_are_none(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"limit {field}"):
        Limits(**{field: value})


def large(planned: bool) -> bytes:
    method = MethodBuilder()
    x = method.input([1])
    sizes = [1 << 16, 1 << 14]  # 4 GiB
    method.output(method.planned(sizes) if planned else method.input(sizes), x)
    return build_program(method)


def test_a_small_file_that_asks_for_much_memory() -> None:
    method = MethodBuilder()
    outputs = [method.tensor([1 << 16, 1 << 13]) for _ in range(3)]  # 2 GiB each, not planned
    method.output(*outputs)
    data = build_program(method)
    assert len(data) < 2000
    program = Runtime.get().load_program(data, limits=Limits(planned_bytes=1 << 30))
    with pytest.raises(ResourceError, match="other outputs 6442450944.*is 1073741824"):
        program.load_method("forward")
    with pytest.raises(MemoryError):
        program.load_method("forward", limits=Limits(planned_bytes=6442450943))


def test_outputs_count_as_often_as_they_are_returned() -> None:
    method = MethodBuilder()
    out = method.planned([1 << 18])  # 1 MiB
    method.output(*[out] * 1000)
    program = Runtime.get().load_program(build_program(method))
    with pytest.raises(ResourceError, match="planned_bytes"):
        program.load_method("forward", limits=Limits(planned_bytes=100 << 20))
    program.load_method("forward", limits=Limits(planned_bytes=1 << 30))


@pytest.mark.parametrize("kind", [io.BytesIO, bytearray, memoryview])
def test_files_that_are_copied(kind: Any) -> None:
    data = copy_program()
    with pytest.raises(ResourceError, match="load_bytes"):
        Runtime.get().load_program(kind(data), limits=Limits(load_bytes=len(data) - 1))
    with pytest.raises(ResourceError, match="load_bytes"):
        Runtime.get().load_program(
            data, data_path=kind(data), limits=Limits(load_bytes=len(data) - 1)
        )
    Runtime.get().load_program(kind(data), limits=Limits(load_bytes=len(data)))
    Runtime.get().load_program(data, limits=Limits(load_bytes=0))


def test_cancel_ends_the_run_of_another_thread() -> None:
    method = load()
    found: list[PteronError] = []

    def call() -> None:
        try:
            method.execute([X])
        except PteronError as error:
            found.append(error)

    assert not method.cancel()
    for _ in range(3):
        thread = threading.Thread(target=call)
        thread.start()
        while not method.cancel():
            time.sleep(0.001)
        thread.join(5)
        assert not thread.is_alive()
    assert [type(error) for error in found] == 3 * [CancelledError]
    assert found[0].code == "Cancelled"
    assert not method.cancel()


def test_a_timeout_counts_the_wait_for_another_thread() -> None:
    program: Program = Runtime.get().load_program(endless(), limits=ENDLESS)
    session = program.session()
    first = program.load_method("forward", session=session)
    second = program.load_method("forward", session=session)
    errors: list[str] = []

    def call() -> None:
        try:
            first.execute([X], timeout=30)
        except CancelledError:
            errors.append("cancelled")

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    start = time.monotonic()
    with pytest.raises(TimedOutError, match="another thread ran"):
        second.execute([X], timeout=0.1)
    assert 0.09 < time.monotonic() - start < 2
    assert first.cancel()
    thread.join()
    assert errors == ["cancelled"]


SCRIPT = """
import signal, sys, threading, time
import numpy as np
from pteron.runtime import Limits, Runtime
data = open(sys.argv[1], "rb").read()
program = Runtime.get().load_program(data, limits=Limits(instructions=None))
session = program.session()
method = program.load_method("forward", session=session)
x = np.ones(4, np.float32)
kind = sys.argv[2]
if kind == "waits":
    other = program.load_method("forward", session=session)
    thread = threading.Thread(target=lambda: other.execute([x]), daemon=True)
    thread.start()
    time.sleep(0.2)
if kind == "handler":
    class Told(Exception): pass
    def handle(*_): raise Told
    signal.signal(signal.SIGINT, handle)
if kind == "goes_on":
    count = 0
    def handle(*_):
        global count
        count += 1
        if count == 3: raise KeyboardInterrupt
    signal.signal(signal.SIGINT, handle)
print("runs", flush=True)
try:
    method.execute([x])
except BaseException as error:
    print(type(error).__name__, time.monotonic(), flush=True)
if kind == "waits":
    other.cancel(); thread.join()
try:
    method.execute([x], timeout=0.01)
except TimeoutError:
    print("usable", flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("run", "KeyboardInterrupt"),
        ("waits", "KeyboardInterrupt"),
        ("handler", "Told"),
        ("goes_on", "KeyboardInterrupt"),
    ],
)
def test_signals_end_a_run_within_100_ms(kind: str, raised: str, tmp_path: Any) -> None:
    path = tmp_path / "m.pte"
    path.write_bytes(endless())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    delays = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path), kind],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stdout.readline() == "runs\n"
        time.sleep(0.15)
        for _ in range(2 if kind == "goes_on" else 0):
            process.send_signal(signal.SIGINT)
            time.sleep(0.15)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        name, when = process.stdout.readline().split()
        assert name == raised
        delays.append(float(when) - sent)
        assert process.communicate(timeout=20)[0].splitlines()[-1] == "usable"
    assert min(delays) < 0.1, delays
