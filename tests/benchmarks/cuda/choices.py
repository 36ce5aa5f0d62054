"""Matmuls: cuBLAS beside Inductor's Triton template, matmul by matmul, on the GPU."""

from typing import Any

import torch

from pteron.command.contender import text_table
from tests.benchmarks.cuda.mm import SIZES
from tests.benchmarks.cuda.timing import Launch, interleaved, relative_error, timed


def measure(rounds: int) -> list[dict[str, Any]]:
    """For each size the microseconds of a bfloat16 product by either, the template tuned."""
    results = []
    for m, k, n in SIZES:
        torch.manual_seed(0)
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
        torch._dynamo.reset()
        template = torch.compile(
            torch.mm, options={"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
        )
        error = relative_error(template(a, b), a.double() @ b.double())
        ways: dict[str, Launch] = {
            "cublas": timed(lambda a=a, b=b: torch.mm(a, b)),
            "triton": timed(lambda a=a, b=b, template=template: template(a, b)),
        }
        for launch in ways.values():
            launch(3)
        times = interleaved(ways, rounds, batch=100 if 2 * m * k * n < 1e11 else 10)
        gpu = {name: taken.gpu_us for name, taken in times.items()}
        results.append({"size": [m, k, n], "gpu_us": gpu, "template_error": error})
    return results


def table(results: list[dict[str, Any]]) -> str:
    """One line a size."""
    rows: list[list[str | float]] = [["m, k, n", "cuBLAS", "template", "ratio"]]
    for row in results:
        cublas, triton = row["gpu_us"]["cublas"], row["gpu_us"]["triton"]
        rows.append([", ".join(map(str, row["size"])), cublas, triton, triton / cublas])
    return f"matmuls, us on the GPU\n{text_table(rows)}"
