"""What a service relies on: limits, cancelling, forks, memory given back. Needs a GPU."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
import torch

from pteron.backends.cuda import CudaPartitioner
from pteron.backends.cuda.tests.programs import ON_DEVICE, data_of, load, lower, save
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import (
    CancelledError,
    Limits,
    PteronError,
    ResourceError,
    Runtime,
    TimedOutError,
)
from tests.pool.processes import begin, marked, processes_with

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

_SIZE, _PARTS, _PRODUCTS = 4096, 12, 40


class Long(torch.nn.Module):
    """A second on a GPU, in parts; what is between them is left to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        orthogonal = torch.linalg.qr(torch.randn(_SIZE, _SIZE))[0]
        self.weight = torch.nn.Parameter(orthogonal, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(_PARTS):
            for _ in range(_PRODUCTS):
                x = x @ self.weight
            x = x.cos() * 2
        return x


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(_SIZE, _SIZE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory, x: torch.Tensor) -> pathlib.Path:
    torch.manual_seed(0)
    exported = torch.export.export(Long().cuda(), (x.cuda(),))
    partitioner = CudaPartitioner(leave_out=[torch.ops.aten.cos.default])
    manager = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    return save(manager, tmp_path_factory.mktemp("long"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64)
    )
    exported = torch.export.export(model.cuda(), (torch.randn(64, 256, device="cuda"),))
    return save(lower(exported), tmp_path_factory.mktemp("small"), **ON_DEVICE)


def _used() -> int:
    """Bytes of the GPU's memory."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return total - free


def _seconds(call: Callable[[], object]) -> float:
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


def test_what_may_be_copied_is_known_before_it_is(
    long: pathlib.Path, small: pathlib.Path, x: torch.Tensor
) -> None:
    weights = _SIZE * _SIZE * 4
    kept = load(small).load_method("forward")  # so that CUDA is not started below
    before = _used()
    program = Runtime.get().load_program(
        long, data_path=data_of(long), limits=Limits(load_bytes=weights // 2)
    )
    with pytest.raises(ResourceError, match="load_bytes"):
        program.load_method("forward")
    assert _used() - before < weights // 2
    program = Runtime.get().load_program(
        long, data_path=data_of(long), limits=Limits(load_bytes=(_PARTS + 1) * weights)
    )
    method = program.load_method("forward")
    method.execute([x])
    assert _used() - before > weights
    del program, method
    assert _used() - before < weights // 2
    assert kept


def test_a_run_ends_early_and_the_next_is_right(long: pathlib.Path, x: torch.Tensor) -> None:
    method = load(long).load_method("forward")
    expected = method.execute([x])[0].clone()
    whole = _seconds(lambda: method.execute([x]))
    for timeout in (0.0, whole / 4):
        begin = time.monotonic()
        with pytest.raises(TimedOutError):
            method.execute([x], timeout=timeout)
        assert time.monotonic() - begin < timeout + whole / 2
        assert torch.equal(method.execute([x])[0], expected)
    timer = threading.Timer(whole / 4, method.cancel)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(CancelledError):
        method.execute([x])
    assert time.monotonic() - begin < whole * 3 / 4
    timer.join()
    assert torch.equal(method.execute([x])[0], expected)
    limited = Runtime.get().load_program(
        long, data_path=data_of(long), limits=Limits(run_time=whole / 4)
    )
    with pytest.raises(TimedOutError, match="run_time"):
        limited.load_method("forward").execute([x])


_FORKS = """
import os, pathlib, signal, sys
import numpy as np
from pteron.runtime import PteronError
from pteron.backends.cuda.tests.programs import load
import torch
method = load(pathlib.Path(sys.argv[1])).load_method("forward")
x = torch.ones(64, 256, device="cuda")
expected = method.execute([x])[0].cpu()
for work in ("run", "load", "drop"):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            if work == "run":
                method.execute([np.ones((64, 256), np.float32)])
            elif work == "load":
                load(pathlib.Path(sys.argv[1])).load_method("forward")
            else:
                del method
                os._exit(0)
        except PteronError as error:
            print(error, flush=True)
            os._exit(0)
        except BaseException as error:
            print(type(error), error, flush=True)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    print(work, status, flush=True)
    assert status == 0
assert torch.equal(method.execute([x])[0].cpu(), expected)
"""


def test_children_get_errors_and_parents_go_on(small: pathlib.Path) -> None:
    """CUDA cannot be used in a process that is forked from one that uses it."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, str(small)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_memory_is_released_beside_running_methods(small: pathlib.Path) -> None:
    program, inputs = load(small), torch.randn(64, 256, device="cuda")
    (expected,) = program.load_method("forward").execute([inputs])
    expected = expected.clone()
    stop, wrong, calls = threading.Event(), [], []

    def run() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                method, count = program.load_method("forward"), 0
                while not stop.is_set():
                    (found,) = method.execute([inputs])
                    count += 1
                    if not torch.equal(found, expected):
                        wrong.append(count)
                calls.append(count)
        except PteronError as error:
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        Runtime.get().release_cached_memory()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert len(calls) == 4 and min(calls) > 10


_EXPORT = """
import torch
from pteron.backends.cuda import CudaPartitioner
from pteron.exir import to_edge_transform_and_lower
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = (torch.nn.Linear(256 + 8 * i, 264 + 8 * i) for i in range(16))
        self.layers = torch.nn.ModuleList(layers)
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.softmax(layer(x) * i, -1).cumsum(0)
            x = torch.nn.functional.layer_norm(x, x.shape[-1:])
        return x
exported = torch.export.export(Model().eval().cuda(), (torch.randn(8, 256, device="cuda"),))
print("begun", flush=True)
manager = to_edge_transform_and_lower(exported, partitioner=[CudaPartitioner()])
manager.to_executorch().save("model.pte")
print("done", flush=True)
"""


mark = pytest.fixture(marked)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("later", [2.0, 8.0])
def test_an_export_ends(
    mark: str, number: signal.Signals, later: float, tmp_path: pathlib.Path
) -> None:
    process = begin(mark, _EXPORT, folder=tmp_path)
    time.sleep(later)
    running = processes_with(mark)
    sent = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    seconds = time.monotonic() - sent
    # Python 3.12 ends -c with 1.
    assert process.returncode in {-number, number == signal.SIGINT and 1}, errors
    assert seconds < 3, (seconds, running, errors)
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    until = time.monotonic() + 3
    while processes_with(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert not processes_with(mark)
    assert not [*tmp_path.glob("*.pte*"), *tmp_path.rglob("*.part")]
