"""Whole programs on several threads, beside a bare cuBLAS loop that launches their products.

Each thread has a stream of its own and a method of its own of one program, and calls it 10,000
times in batches, whose launches alone the host's clock sees. The bare loop calls cublasGemmEx for
the same products, as often, with as many threads, and does nothing else.
"""

import statistics
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.cuda import mm, models
from tests.benchmarks.cuda.networks import Mlp

_BATCH = 100  # calls between two waits for the GPU: full queues block

Run = Callable[[int, int], float]
"""(stream, count) -> host microseconds a call."""


def _on_threads(runs: list[Run], calls: int) -> float:
    """Host microseconds a call, the mean over threads that run at the same time."""
    results: list[float] = []
    failures: list[BaseException] = []
    start = threading.Barrier(len(runs))

    def work(run: Run) -> None:
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


def measure(rounds: int, calls: int = 10_000) -> list[dict[str, Any]]:
    """Medians over interleaved rounds for an MLP of two products, on one thread and on eight."""
    torch.manual_seed(0)
    module = Mlp().eval().cuda().to(torch.bfloat16)
    x = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
    hidden = torch.randn(8, 4096, device="cuda", dtype=torch.bfloat16)
    library = mm.Launcher(mm.LIBRARY)
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        expected = module(x)
        path, data = models.lower(module, (x,), Path(folder), gemm="cublas")
        for threads in (1, 8):
            opened = {
                recorded: models.Launcher(models.LIBRARY).open_for_threads(
                    path, data, x, [torch.empty_like(x) for _ in range(threads)], recorded
                )
                for recorded in (False, True)
            }
            memory = [(torch.empty_like(hidden), torch.empty_like(x)) for _ in range(threads)]
            products = [
                [
                    library.make(x, module.up.weight.t(), first),
                    library.make(hidden, module.down.weight.t(), second),
                ]
                for first, second in memory
            ]
            ways: dict[str, list[Run]] = {
                "bare": [
                    lambda stream, count, made=made: library.launch_bare(made, stream, count)
                    for made in products
                ],
                "program": [run for run, _ in opened[False]],
                "recorded": [run for run, _ in opened[True]],
            }
            times: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, runs in ways.items():
                    times[name].append(_on_threads(runs, calls))
            found = [result() for each in opened.values() for _, result in each]
            torch.cuda.synchronize()
            rows.append(
                {
                    "threads": threads,
                    "calls": calls,
                    "host_us": {name: round(statistics.median(t), 2) for name, t in times.items()},
                    "equal_results": all(torch.equal(each, found[0]) for each in found),
                    "relative_error": float(
                        (found[0].double() - expected.double()).norm() / expected.double().norm()
                    ),
                }
            )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each number of threads."""
    lines = ["an MLP of two products on threads: host us a call"]
    for row in rows:
        bare, ours, recorded = (row["host_us"][way] for way in ("bare", "program", "recorded"))
        lines.append(
            f"{row['threads']} threads x {row['calls']} calls: program {ours:.2f}, bare cuBLAS "
            f"loop {bare:.2f} ({ours / bare:.2f}), recorded {recorded:.2f} "
            f"({recorded / bare:.2f}), equal results: {row['equal_results']}, "
            f"error {row['relative_error']:.1e}"
        )
    return "\n".join(lines)
