"""Whole programs on several threads, beside a bare cuBLAS loop that launches their products.

Each thread has a stream of its own and a method of its own of one program, and calls it 10,000
times in batches, whose launches alone the host's clock sees. The bare loop calls cublasGemmEx for
the same products, as often, with as many threads, and does nothing else.
"""

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.cuda import mm, models
from tests.benchmarks.cuda.networks import Mlp
from tests.benchmarks.cuda.timing import OnStream, relative_error, threads_us


def measure(rounds: int, calls: int = 10_000) -> list[dict[str, Any]]:
    """Medians over at most seven rounds for an MLP of two products, on one thread and on eight."""
    torch.manual_seed(0)
    module = Mlp().eval().cuda().to(torch.bfloat16)
    x = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
    hidden = torch.randn(8, 4096, device="cuda", dtype=torch.bfloat16)
    library = mm.Launcher()
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        expected = module(x)
        path, data = models.lower(module, (x,), Path(folder), gemm="cublas")
        for threads in (1, 8):
            opened = {
                recorded: models.Launcher().open_for_threads(
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
            ways: dict[str, list[OnStream]] = {
                "bare": [functools.partial(library.launch_bare, made) for made in products],
                "program": [run for run, _ in opened[False]],
                "recorded": [run for run, _ in opened[True]],
            }
            host_us = threads_us(ways, min(rounds, 7), calls)
            found = [result() for each in opened.values() for _, result in each]
            torch.cuda.synchronize()
            rows.append(
                {
                    "threads": threads,
                    "calls": calls,
                    "host_us": host_us,
                    "equal_results": all(torch.equal(each, found[0]) for each in found),
                    "relative_error": relative_error(found[0], expected),
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
