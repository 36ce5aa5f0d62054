"""Times of several ways to do one thing, taken in turn, so that disturbances hit them alike.

    times = interleaved({"torch": launch_torch, "ours": launch_ours}, rounds=30, batch=100)
    times["ours"].gpu_us

A launch is a callable that starts `count` calls and returns the host's microseconds a call. All
results are medians over the rounds, in microseconds a call.
"""

import dataclasses
import functools
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pteron.command.contender import by_turns

Launch = Callable[[int], float]

# Clock cycles for which the GPU is kept busy while the host queues a batch: about 5 ms.
_HEAD_START = 10_000_000


@dataclasses.dataclass(frozen=True)
class Times:
    """Microseconds a call.

    Attributes:
        gpu_us: on the GPU, by CUDA events around a batch that the host queued while the GPU was
            busy with something else; so without the host's pace.
        paced_us: the same without that head start: what a caller sees who does not wait.
        host_us: on the host, calls queued without waiting.
        latency_us: one call and a wait for its result, on the host's clock.
    """

    gpu_us: float
    paced_us: float
    host_us: float
    latency_us: float


def timed(call: Callable[[], Any]) -> Launch:
    """A launch that calls `call`."""

    def launch(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count * 1e6

    return launch


def _on_gpu(launch: Launch, batch: int, head_start: bool) -> tuple[float, float]:
    """(GPU, host) microseconds a call."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if head_start:
        torch.cuda._sleep(_HEAD_START)
    begin.record()
    host = launch(batch)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / batch * 1e3, host


def interleaved(ways: Mapping[str, Launch], rounds: int, batch: int = 50) -> dict[str, Times]:
    """Medians over `rounds` rounds through all `ways`.

    Events are recorded on the current stream, so the ways have to launch on it or order their own
    stream with it.
    """

    def turn(launch: Launch) -> tuple[float, ...]:
        torch.cuda.synchronize()
        start = time.perf_counter()
        launch(1)
        torch.cuda.synchronize()
        latency = (time.perf_counter() - start) * 1e6
        paced, _ = _on_gpu(launch, batch, head_start=False)
        gpu, host = _on_gpu(launch, batch, head_start=True)
        return gpu, paced, host, latency

    turns = {name: functools.partial(turn, launch) for name, launch in ways.items()}
    return {
        name: Times(*(round(statistics.median(kind), 3) for kind in zip(*taken, strict=True)))
        for name, taken in by_turns(turns, rounds).items()
    }


OnStream = Callable[[int, int], float]
"""(stream, count) -> host microseconds a call."""

_BATCH = 100  # calls between two waits for the GPU: full queues block


def threads_us(
    ways: Mapping[str, Sequence[OnStream]], rounds: int, calls: int = 10_000
) -> dict[str, float]:
    """Host microseconds a call of each way, whose launches run at the same time, one a thread, on
    streams of their own: the mean over threads, the median over rounds."""
    turns = {way: functools.partial(_on_threads, runs, calls) for way, runs in ways.items()}
    return {
        way: round(statistics.median(times), 3) for way, times in by_turns(turns, rounds).items()
    }


def _on_threads(runs: Sequence[OnStream], calls: int) -> float:
    results: list[float] = []
    failures: list[BaseException] = []
    start = threading.Barrier(len(runs))

    def work(run: OnStream) -> None:
        try:
            stream = torch.cuda.Stream()
            run(stream.cuda_stream, _BATCH)
            stream.synchronize()
            start.wait()
            times = []
            for _ in range(calls // _BATCH):
                times.append(run(stream.cuda_stream, _BATCH))
                stream.synchronize()
            results.append(statistics.fmean(times))
        except BaseException as error:
            failures.append(error)
            start.abort()

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return statistics.fmean(results)


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The norm of the difference over that of `exact`, in float64."""
    return float((found.double() - exact.double()).norm() / exact.double().norm())


def kernels_us(launch: Launch, calls: int = 20) -> float:
    """Microseconds of kernels and copies on the GPU in one call, as the profiler adds them up."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    launch(3)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        launch(calls)
        torch.cuda.synchronize()
    work = [e for e in seen.events() if e.device_type == DeviceType.CUDA]
    return round(sum(e.time_range.elapsed_us() for e in work) / calls, 2)
