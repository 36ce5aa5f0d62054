"""Methods that were prepared: CUDA graphs for the sizes that were asked for. Needs a GPU.

Whatever is replayed must be equal, bit for bit, to what the same method gives without.
"""

import contextlib
import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.export import Dim

from pteron.backends.cuda.tests.programs import (
    ON_DEVICE,
    check,
    data_of,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)
from pteron.exir import MemoryPlanningPass
from pteron.runtime import PteronError
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS
from tests.models.sample import Sample

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

#: Of the tests that run for a time.
_SECONDS = float(os.environ.get("PTERON_SOAK_SECONDS", "5"))


def _calls(run: Callable[[], Any]) -> tuple[int, int]:
    """How many graphs and how many kernels `run` launches."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    kernels = ("cudaLaunchKernel", "cuLaunchKernel")
    return (
        sum(name.startswith("cudaGraphLaunch") for name in names),
        sum(name.startswith(kernels) for name in names),
    )


def _to_device(values: list[Any]) -> list[Any]:
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]


def _equal(found: list[Any], expected: list[Any]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(found, expected, strict=True)
    )


def _copies(values: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _problem(action: Callable[[], Any]) -> str:
    with pytest.raises(PteronError) as raised:
        action()
    return str(raised.value)


class _Linear(torch.nn.Module):
    """Batches of any size, and enough launches for a replay to take a while."""

    def __init__(self, depth: int = 8, width: int = 256) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.softmax(layer(x), -1) * 16
        return x


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    torch.manual_seed(0)
    shapes = ({0: Dim("batch", min=1, max=64)},)
    exported = torch.export.export(_Linear().eval(), (torch.randn(3, 256),), dynamic_shapes=shapes)
    return save(lower(exported), tmp_path_factory.mktemp("linear"), **ON_DEVICE)


_SAMPLES = [
    pytest.param(sample, marks=pytest.mark.xdist_group(sample.name), id=sample.name)
    for sample in FEATURES + NETWORKS
]


@pytest.mark.parametrize("sample", _SAMPLES)
def test_samples(sample: Sample, tmp_path: pathlib.Path) -> None:
    """Tensors on the host: copies in and out are instructions beside the graphs."""
    program = load(save(lower(sample.export()), tmp_path))
    plain, prepared = program.load_method("forward"), program.load_method("forward")
    calls = [inputs_of(sample, seed) for seed in (0, 1, 2, 0, 3, 1)]
    expected = [_copies(plain.execute(inputs)) for inputs in calls]
    for inputs in calls:
        prepared.prepare(inputs)
    found = [_copies(prepared.execute(inputs)) for inputs in calls]
    for a, b in zip(found, expected, strict=True):
        assert _equal(a, b)
    check(found[0], eager(sample, 1)[0], sample.rtol)
    graphs, _ = _calls(lambda: prepared.execute(calls[-1]))
    assert graphs >= 1


@pytest.mark.parametrize("planned", [True, False])
def test_inputs_at_any_address_and_outputs_of_the_caller(
    planned: bool, tmp_path: pathlib.Path
) -> None:
    sample = sample_named("mlp_block")
    planning = MemoryPlanningPass(alloc_graph_output=planned)
    program = load(
        save(lower(sample.export()), tmp_path, **ON_DEVICE, memory_planning_pass=planning)
    )
    plain, prepared = program.load_method("forward"), program.load_method("forward")
    calls = [_to_device(inputs_of(sample, seed)) for seed in range(4)]
    expected = [_copies(plain.execute(inputs)) for inputs in calls]
    prepared.prepare(calls[0])
    kept = [prepared.execute(inputs)[0] for inputs in calls]  # all of them alive at once
    if not planned:
        assert len({value.data_ptr() for value in kept}) == len(kept)
        assert _equal(kept, [value for (value,) in expected])
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for inputs, reference in zip(calls, expected, strict=True):
                assert _equal(prepared.execute(inputs), reference)
    graphs, kernels = _calls(lambda: prepared.execute(calls[1]))
    assert (graphs, kernels) == (1, 0)


@pytest.mark.xdist_group("linear")
def test_a_graph_for_each_size_and_the_oldest_goes(linear: pathlib.Path) -> None:
    program = load(linear)
    options = {"CudaBackend": {"max_graphs": 2}}
    plain = program.load_method("forward")
    prepared = program.load_method("forward", backend_options=options)
    calls = [[torch.randn(batch, 256).cuda()] for batch in (1, 7, 64, 33)]
    expected = [_copies(plain.execute(inputs)) for inputs in calls]
    for inputs in calls[:3]:
        prepared.prepare(inputs)
    prepared.prepare(calls[1])  # is there already
    for _ in range(2):
        for inputs, reference in zip(calls, expected, strict=True):
            assert _equal(prepared.execute(inputs), reference)
    graphs = [_calls(lambda i=i: prepared.execute(calls[i]))[0] for i in range(4)]
    assert graphs[0] == 0 and graphs[3] == 0, graphs
    assert graphs[1] > 0 and graphs[2] > 0, graphs


def test_state_goes_on_and_can_be_reset(tmp_path: pathlib.Path) -> None:
    sample = sample_named("kv_cache")
    program = load(save(lower(sample.export()), tmp_path, **ON_DEVICE))
    calls = [_to_device(inputs_of(sample, seed)) for seed in range(6)]
    plain, prepared = program.load_method("forward"), program.load_method("forward")
    expected = [_copies(plain.execute(inputs)) for inputs in calls]
    assert _equal(prepared.execute(calls[0]), expected[0])
    prepared.prepare(calls[5])  # in the middle: neither the cache nor the count may move
    for inputs, reference in zip(calls[1:], expected[1:], strict=True):
        assert _equal(prepared.execute(inputs), reference)
    assert _calls(lambda: prepared.execute(calls[0]))[0] > 0
    prepared.reset_state()
    for inputs, reference in zip(calls, expected, strict=True):
        assert _equal(prepared.execute(inputs), reference)
    # Another method of the session sees what a replay wrote.
    other = program.load_method("forward", session=prepared.session())
    prepared.reset_state()
    for index, (inputs, reference) in enumerate(zip(calls, expected, strict=True)):
        assert _equal((prepared, other)[index % 2].execute(inputs), reference)


class _Nonzero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x.relu())


class _Noise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x) + x.relu()


@pytest.mark.parametrize(
    "module, why", [(_Nonzero(), "depends on data"), (_Noise(), "each run draws others")]
)
def test_what_cannot_be_captured(module: torch.nn.Module, why: str, tmp_path: pathlib.Path) -> None:
    x = torch.randn(4, 6)
    manager = lower(torch.export.export(module, (x,)))
    method = load(save(manager, tmp_path)).load_method("forward")
    problem = _problem(lambda: method.prepare([x]))
    assert why in problem and "CudaBackend" in problem and "as before" in problem, problem
    (first,), (second,) = method.execute([x]), method.execute([x])
    if isinstance(module, _Nonzero):
        assert torch.equal(first, module(x)) and torch.equal(second, module(x))
    else:
        assert not torch.equal(first, second)
    assert _calls(lambda: method.execute([x]))[0] == 0


@contextlib.contextmanager
def _running(*bodies: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Each body over and over in a thread of its own while the block runs."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def work(body: Callable[[], None]) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not stop.is_set() and not failures:
                    body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]


def _replayer(path: pathlib.Path, batch: int) -> Callable[[], None]:
    program = load(path)
    x = torch.randn(batch, 256, generator=torch.Generator().manual_seed(batch)).cuda()
    expected = program.load_method("forward").execute([x])[0].clone()
    method = program.load_method("forward")
    method.prepare([x])
    torch.cuda.synchronize()

    def run() -> None:
        for _ in range(20):
            (found,) = method.execute([x])
        torch.cuda.current_stream().synchronize()
        assert torch.equal(found, expected)

    return run


def _wait(failures: list[BaseException], seconds: float = _SECONDS) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not failures:
        time.sleep(0.05)


@pytest.mark.xdist_group("linear")
def test_waits_for_the_device_beside_replays(linear: pathlib.Path) -> None:
    replayers = [_replayer(linear, batch) for batch in (1, 8)]
    with _running(*replayers, torch.cuda.synchronize, torch.cuda.synchronize) as failures:
        _wait(failures)


@pytest.mark.xdist_group("linear")
def test_preparing_beside_replays_loads_and_unloads(linear: pathlib.Path) -> None:
    program = load(linear)
    x = torch.randn(2, 256).cuda()
    torch.cuda.synchronize()

    def cycle() -> None:
        load(linear).load_method("forward").execute([x])
        torch.cuda.current_stream().synchronize()

    with _running(_replayer(linear, 1), _replayer(linear, 8), cycle) as failures:
        end = time.monotonic() + _SECONDS
        count = 0
        while time.monotonic() < end and not failures:
            program.load_method("forward").prepare([x])
            count += 1
    assert count > 0


@pytest.mark.xdist_group("linear")
def test_two_threads_prepare_and_replay(linear: pathlib.Path) -> None:
    program = load(linear)
    plain = program.load_method("forward")
    xs = [torch.randn(batch, 256).cuda() for batch in (3, 5, 7)]
    expected = [plain.execute([x])[0].clone() for x in xs]
    torch.cuda.synchronize()

    def cycle() -> None:
        method = program.load_method("forward")
        for x in xs:
            method.prepare([x])
        for _ in range(5):
            for x, reference in zip(xs, expected, strict=True):
                assert torch.equal(method.execute([x])[0], reference)

    with _running(cycle, cycle) as failures:
        _wait(failures)


def test_through_the_runner(tmp_path: pathlib.Path) -> None:
    sample = sample_named("mlp_block")
    path = save(lower(sample.export()), tmp_path)
    inputs, outputs = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    save_file({f"input_{i}": x for i, x in enumerate(inputs_of(sample, 0))}, inputs)
    command = [os.environ["RUNNER"], f"--program={path}", *(f"--data={p}" for p in data_of(path))]
    arguments = [f"--inputs={inputs}", f"--outputs={outputs}", "--prepare", "--repeat=3"]
    subprocess.run([*command, *arguments], check=True)
    found = load_file(outputs)
    check([found[f"output_{i}"] for i in range(len(found))], eager(sample, 1)[0], sample.rtol)
