"""One program, many threads."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from pteron.runtime import Runtime
from pteron.runtime.tests.program_builder import build_program, copy_program, exchange_method

THREADS = 8
CALLS = 200


def run_in_threads(work: Callable[[int], None]) -> None:
    """`work(i)` in each thread, all started at once; raises what any of them raised."""
    barrier = threading.Barrier(THREADS)

    def start(i: int) -> None:
        barrier.wait()
        work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(start, i) for i in range(THREADS)]:
            future.result()


def test_a_method_each_from_one_program() -> None:
    program = Runtime.get().load_program(copy_program())

    def work(i: int) -> None:
        method = program.load_method("forward")
        for call in range(CALLS):
            x = torch.full((2, 3), float(i * CALLS + call))
            assert torch.equal(method.execute([x])[0], x)

    run_in_threads(work)


def test_one_method_takes_turns() -> None:
    method = Runtime.get().load_program(copy_program()).load_method("forward")

    def work(i: int) -> None:
        for call in range(CALLS):
            x = torch.full((2, 3), float(i * CALLS + call))
            assert torch.equal(method.execute([x])[0], x)

    run_in_threads(work)


def test_methods_of_one_session_take_turns() -> None:
    program = Runtime.get().load_program(build_program(exchange_method("exchange")))
    session = program.session()
    found: list[float] = []

    def work(i: int) -> None:
        method = program.load_method("exchange", session=session)
        for call in range(CALLS):
            (before,) = method.execute([torch.full((2,), float(1 + i * CALLS + call))])
            found.append(before[0].item())

    run_in_threads(work)
    found.append(session.buffer("held")[0].item())
    assert sorted(found) == list(range(THREADS * CALLS + 1))  # each came out once


def test_programs_are_loaded_at_once() -> None:
    data = copy_program()

    def work(i: int) -> None:
        for _ in range(20):
            method = Runtime.get().load_program(data).load_method("forward")
            x = torch.full((2, 3), i - 2.5)
            (found,) = method.execute([x])
            assert torch.equal(found, x)

    run_in_threads(work)
