"""What Python puts on the GPU follows the caller's stream, and the host waits for nothing.

Needs a GPU. A kernel that only passes time stands for earlier work of the caller.
"""

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch

from pteron.backends.cuda.tests.programs import (
    ON_DEVICE,
    check,
    eager,
    inputs_of,
    load,
    lower,
    sample_named,
    save,
)
from pteron.exir import MemoryPlanningPass

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.xdist_group("streams"),
]

_SLEEP = 400_000_000  # clock cycles: a fifth of a second


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, pathlib.Path]:
    """Programs with tensors on the device at both ends, by whether outputs have planned memory."""
    manager = lower(sample_named("mlp_block").export())
    return {
        planned: save(
            manager,
            tmp_path_factory.mktemp("mlp"),
            **ON_DEVICE,
            memory_planning_pass=MemoryPlanningPass(alloc_graph_output=planned),
        )
        for planned in (True, False)
    }


def _slept() -> torch.cuda.Event:
    """Earlier work on the current stream; the event tells whether it is done."""
    torch.cuda._sleep(_SLEEP)
    event = torch.cuda.Event()
    event.record()
    return event


def _stream(kind: str) -> torch.cuda.Stream:
    return torch.cuda.default_stream() if kind == "default" else torch.cuda.Stream()


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("kind", ["default", "side"])
def test_the_host_does_not_wait(kind: str, planned: bool, mlp: dict[bool, pathlib.Path]) -> None:
    sample = sample_named("mlp_block")
    method = load(mlp[planned]).load_method("forward")
    expected = eager(sample, 3)
    with torch.cuda.stream(_stream(kind)):
        x = inputs_of(sample, 0)[0].cuda()
        # Pinned before: that waits for the GPU.
        inputs = [inputs_of(sample, seed)[0].pin_memory() for seed in range(3)]
        kept = [method.execute([x])[0] + 0 for _ in range(3)]
        torch.cuda.synchronize()
        del kept
        earlier = _slept()
        # Written on the caller's stream, after the sleep; read there, too.
        found = []
        for pinned in inputs:
            x.copy_(pinned, non_blocking=True)
            found.append(method.execute([x])[0] + 0)
        assert not earlier.query(), "a call waited for the GPU"
        torch.cuda.current_stream().synchronize()
        for output, reference in zip(found, expected, strict=True):
            check([output], reference, sample.rtol)


def test_outputs_are_computed_where_they_belong(mlp: dict[bool, pathlib.Path]) -> None:
    from torch.profiler import ProfilerActivity, profile

    sample = sample_named("mlp_block")
    method = load(mlp[False]).load_method("forward")
    x = inputs_of(sample, 0)[0].cuda()
    for _ in range(3):
        method.execute([x])
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        (found,) = method.execute([x])
        torch.cuda.synchronize()
    work = [event.name for event in seen.events()]
    assert any("gemm" in name.lower() or "nvjet" in name or "cutlass" in name for name in work), (
        work
    )
    assert not [name for name in work if "Memcpy" in name]
    check([found], eager(sample, 1)[0], sample.rtol)


def test_another_stream_waits_for_the_session(tmp_path: pathlib.Path) -> None:
    """State that one call left on one stream is there for the next call on another one."""
    sample = sample_named("kv_cache")
    path = save(lower(sample.export()), tmp_path, **ON_DEVICE)
    method = load(path).load_method("forward")
    calls = [[value.cuda() for value in inputs_of(sample, seed)] for seed in range(6)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.default_stream(), torch.cuda.Stream()]
    for stream in streams:  # kernels are loaded and memory is had; that waits
        with torch.cuda.stream(stream):
            method.execute(calls[0])
    method.reset_state()
    found, events = [], []
    for seed, inputs in enumerate(calls):
        with torch.cuda.stream(streams[seed % 3]):
            events.append(_slept())
            found.append(method.execute(inputs))
    assert not events[0].query(), "a call waited for the GPU"
    buffers = {name: method.session().buffer(name) for name in method.session().buffer_names()}
    torch.cuda.synchronize()
    module = sample.module()
    with torch.no_grad():
        for seed, outputs in enumerate(found):
            check(outputs, [module(*sample.inputs(seed))], sample.rtol)
    for name, value in module.state_dict().items():
        for found_name, found_value in buffers.items():
            if found_name.endswith(name):
                check([found_value], [value], sample.rtol)
    assert any(name.endswith("cache") for name in buffers)


_CUPY = """
import sys, pathlib
import cupy, numpy
from pteron.runtime import Runtime
path = pathlib.Path(sys.argv[1])
program = Runtime.get().load_program(path, data_path=sorted(path.parent.glob("*.ptd")))
method = program.load_method("forward")
given = numpy.load(sys.argv[2])
results = []
busy = cupy.RawKernel('extern "C" __global__ void busy(long long n) {'
                      ' long long t = clock64(); while (clock64() - t < n) {} }', "busy")
for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
    with stream:
        busy((1,), (1,), (200000000,))
        x = cupy.asarray(given) + 0
        (found,) = method.execute([x])
        assert "torch" not in sys.modules
        results.append(cupy.asnumpy(cupy.from_dlpack(found) + 0))
numpy.savez(sys.argv[3], *results)
"""


def test_a_library_without_an_exchange_of_streams(
    mlp: dict[bool, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """cupy's arrays come and go by `__dlpack__`, which orders its stream with the default one."""
    pytest.importorskip("cupy")
    import numpy as np

    sample = sample_named("mlp_block")
    np.save(tmp_path / "x.npy", inputs_of(sample, 0)[0].numpy())
    arguments = [str(mlp[True]), str(tmp_path / "x.npy"), str(tmp_path / "found.npz")]
    subprocess.run(
        [sys.executable, "-c", _CUPY, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    found: Any = np.load(tmp_path / "found.npz")
    for name in found.files:
        check([torch.from_numpy(found[name])], eager(sample, 1)[0], sample.rtol)
