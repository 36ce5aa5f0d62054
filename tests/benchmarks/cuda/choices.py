"""Matmuls: cuBLAS beside Inductor's Triton template, matmul by matmul, on the GPU."""

from typing import Any

import torch

from tests.benchmarks.cuda.mm import SIZES
from tests.benchmarks.cuda.timing import Launch, interleaved, timed


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
        expected = a.double() @ b.double()
        error = float((template(a, b).double() - expected).norm() / expected.norm())
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
    lines = [f"{'m, k, n':<18} {'cuBLAS':>9} {'template':>9} {'ratio':>6}   (us on the GPU)"]
    for row in results:
        cublas, triton = row["gpu_us"]["cublas"], row["gpu_us"]["triton"]
        size = ", ".join(map(str, row["size"]))
        lines.append(f"{size:<18} {cublas:>9.2f} {triton:>9.2f} {triton / cublas:>6.2f}")
    return "\n".join(lines)
