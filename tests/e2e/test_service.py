"""What a service relies on: descriptors, forks, threads and memory of programs on the CPU."""

import gc
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from pteron.backends.cpu import CpuOptions
from pteron.runtime import CancelledError, Method, Runtime, TimedOutError
from tests.e2e.lowering import lower_to_file


class Norms(torch.nn.Module):
    """Loops of several parts, which meet at barriers, and products."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 32)
        self.norm = torch.nn.LayerNorm(1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.b(self.norm(torch.relu(self.a(x)))), -1)


class Long(torch.nn.Module):
    """Seconds, in one delegate, for thousands of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.softmax(self.layers(x), -1)
        return x


class Loop(torch.nn.Module):
    """As many turns as an input says, on one thread, in one delegate."""

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        found = torch.while_loop(
            lambda i, x: i < turns,
            lambda i, x: (i + 1, (x + 1).sin()),
            (torch.zeros((), dtype=torch.int64), x),
        )
        return found[1]


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1).sin()


def save(exported: torch.export.ExportedProgram, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.pte"
    lower_to_file(exported, path, CpuOptions(isa="native"))
    return path


@pytest.fixture(scope="module")
def norms(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=100_000)
    exported = torch.export.export(
        Norms().eval(), (torch.randn(64, 256),), dynamic_shapes=({0: rows},)
    )
    return save(exported, tmp_path_factory.mktemp("norms"))


@pytest.fixture(scope="module")
def sine(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return save(torch.export.export(Sine(), (torch.randn(4, 8),)), tmp_path_factory.mktemp("sine"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    rows = torch.export.Dim("rows", min=1, max=100_000)
    exported = torch.export.export(
        Long().eval(), (torch.randn(4, 1024),), dynamic_shapes=({0: rows},)
    )
    return save(exported, tmp_path_factory.mktemp("long"))


def load(path: pathlib.Path) -> Method:
    return Runtime.get().load_program(path).load_method("forward")


def ends_well_in_a_child(work: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(15)
        os._exit(0 if work() else 1)
    return os.waitpid(pid, 0)[1] == 0


def resident() -> float:
    """In MB."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def test_closed_descriptors_do_not_mix_programs_up(norms: pathlib.Path, sine: pathlib.Path) -> None:
    def works() -> bool:
        first, x = load(sine), np.full((4, 8), 0.5, np.float32)
        os.closerange(3, 4096)
        second, y = load(norms), np.ones((64, 256), np.float32)
        right = np.allclose(first.execute([x])[0], np.sin(1.5), atol=1e-6)
        return right and np.allclose(np.sum(second.execute([y])[0], -1), 1, atol=1e-5)

    assert ends_well_in_a_child(works)


def test_no_descriptor_is_kept(norms: pathlib.Path, sine: pathlib.Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    kept = [load(path) for path in (norms, sine)]
    assert len(kept) == 2 and len(os.listdir("/proc/self/fd")) == before


def test_forks_beside_threads_that_load_and_run(norms: pathlib.Path, sine: pathlib.Path) -> None:
    x, y = np.ones((64, 256), np.float32), np.ones((4, 8), np.float32)
    expected = np.asarray(load(norms).execute([x])[0])
    stop = threading.Event()
    running = load(norms)

    def run() -> None:
        while not stop.is_set():
            running.execute([x])

    def load_again() -> None:
        while not stop.is_set():
            load(sine).execute([y])

    threads = [threading.Thread(target=work) for work in (run, load_again, load_again)]
    for thread in threads:
        thread.start()

    def works() -> bool:
        mine = load(norms)
        return all(np.array_equal(mine.execute([x])[0], expected) for _ in range(3))

    try:
        assert all([ends_well_in_a_child(works) for _ in range(25)])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_many_callers_compute_the_same_bits(norms: pathlib.Path) -> None:
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    expected = np.asarray(load(norms).execute([x])[0])
    wrong: list[int] = []

    def run() -> None:
        method = load(norms)
        wrong.append(sum(not np.array_equal(method.execute([x])[0], expected) for _ in range(100)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 8


def test_memory_of_a_large_request_is_given_back(norms: pathlib.Path) -> None:
    small, large = np.ones((4, 256), np.float32), np.ones((50_000, 256), np.float32)
    method = load(norms)
    method.execute([small])
    before = resident()
    method.execute([large])
    assert resident() - before > 150
    Runtime.get().release_cached_memory()
    assert resident() - before < 40
    method.execute([large])
    for _ in range(50):
        method.execute([small])
    assert resident() - before < 40
    method.execute([large])
    del method
    gc.collect()
    assert resident() - before < 40


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_ends_inside_of_a_delegate(threads: int, long: pathlib.Path) -> None:
    options = {"CpuBackend": {"num_threads": threads}}
    method = Runtime.get().load_program(long).load_method("forward", backend_options=options)
    few, many = np.ones((4, 1024), np.float32), np.ones((4_000, 1024), np.float32)
    expected = np.array(method.execute([few])[0])
    begin = time.monotonic()
    method.execute([many])
    whole = time.monotonic() - begin
    for ended, timeout in ((TimedOutError, whole / 10), (CancelledError, None)):
        timer = threading.Timer(whole / 10, method.cancel)
        if ended is CancelledError:
            timer.start()
        begin = time.monotonic()
        with pytest.raises(ended):
            method.execute([many], timeout=timeout)
        assert time.monotonic() - begin < whole / 2
        assert np.array_equal(method.execute([few])[0], expected)


def test_a_run_ends_inside_of_a_loop(tmp_path: pathlib.Path) -> None:
    path = save(torch.export.export(Loop(), (torch.zeros(4), torch.tensor(3))), tmp_path)
    method = Runtime.get().load_program(path).load_method("forward")
    x, for_days = np.zeros(4, np.float32), np.array(1 << 40)
    start = time.monotonic()
    with pytest.raises(TimedOutError):
        method.execute([x, for_days], timeout=0.1)
    assert time.monotonic() - start < 30
    np.testing.assert_allclose(method.execute([x, np.array(1)])[0], np.sin(x + 1), rtol=1e-6)
