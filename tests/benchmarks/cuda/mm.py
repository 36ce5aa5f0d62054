"""Matmuls: the runtime's shim beside torch.mm, in interleaved rounds on one stream.

For each size: time on the GPU (CUDA events around batches of launches) and time on the host (the
clock around the same batches, for sizes that do not fill the launch queue), medians over rounds.
"""

import ctypes
import functools
from typing import Any

import torch

from pteron.command.contender import text_table
from tests.benchmarks.cuda.native import open_native
from tests.benchmarks.cuda.timing import Launch, interleaved, relative_error, threads_us, timed

SIZES = ((1, 2048, 2048), (16, 2048, 8192), (512, 2048, 2048), (4096, 4096, 4096), (8192,) * 3)
PATHS = {"shim": 0, "cublas": 1, "cublasLt": 2, "bare": 3, "recorded": 4}
DTYPES = {torch.bfloat16: 15, torch.float32: 6}


class Launcher:
    """The C++ side; see mm_launcher.cpp."""

    def __init__(self) -> None:
        pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        self._c = open_native(
            "libmm_launcher.so",
            mm_make=(pointer, number, *[size] * 3, *[pointer] * 3, number),
            mm_launch=(size, pointer, pointer, number, number),
            mm_launch_bare=(size, pointer, number, pointer, number),
        )

    def make(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> int:
        """A product of (m, k) with (k, n); `b` row- or column-major."""
        (m, k), n = a.shape, b.shape[1]
        return self._c.mm_make(
            DTYPES[a.dtype],
            m,
            n,
            k,
            a.data_ptr(),
            b.data_ptr(),
            out.data_ptr(),
            int(b.stride(0) == 1 and b.shape[1] > 1),
        )

    def launch(self, product: int, path: str, stream: int, count: int) -> float:
        """Launches; host microseconds a call."""
        return self._c.mm_launch(product, stream, count, PATHS[path]) / count / 1e3

    def launch_bare(self, products: list[int], stream: int, count: int) -> float:
        """Launches all products in turn by cublasGemmEx alone; host microseconds a round."""
        array = (ctypes.c_void_p * len(products))(*products)
        return self._c.mm_launch_bare(array, len(products), stream, count) / count / 1e3


def _measure_size(
    library: Launcher, m: int, k: int, n: int, dtype: torch.dtype, transposed: bool, rounds: int
) -> dict[str, Any]:
    """One size: medians in microseconds for each way."""
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = (
        torch.randn(n, k, device="cuda", dtype=dtype).t()
        if transposed
        else torch.randn(k, n, device="cuda", dtype=dtype)
    )
    out = torch.empty(m, n, device="cuda", dtype=dtype)
    product = library.make(a, b, out)
    ways: dict[str, Launch] = {"torch": timed(lambda: torch.mm(a, b, out=out))}
    for path in PATHS:
        stream = torch.cuda.current_stream().cuda_stream
        ways[path] = functools.partial(library.launch, product, path, stream)
    expected = a.double() @ b.double() if m * k * n <= 1 << 31 else None
    errors = {}
    for name, launch in ways.items():
        out.fill_(float("nan"))
        launch(3)
        torch.cuda.synchronize()
        if expected is not None:
            errors[name] = relative_error(out, expected)
    flops = 2.0 * m * k * n
    times = interleaved(ways, rounds, batch=100 if flops < 1e11 else 10)
    result: dict[str, Any] = {
        "size": [m, k, n],
        "dtype": str(dtype).removeprefix("torch."),
        "transposed": transposed,
        "gpu_us": {name: taken.gpu_us for name, taken in times.items()},
        "host_us": {name: taken.host_us for name, taken in times.items()},
        "relative_error": errors,
    }
    result["tflops"] = {name: round(flops / us / 1e6, 1) for name, us in result["gpu_us"].items()}
    return result


def _measure_threads(library: Launcher, threads: int = 8, calls: int = 10_000) -> dict[str, Any]:
    """Host cost of a small product, with as many threads at once: the shim and a bare loop."""
    a = torch.randn(16, 64, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(16, 64, device="cuda", dtype=torch.bfloat16)
    product = library.make(a, b, out)
    ways = {
        path: [functools.partial(library.launch, product, path)] * threads
        for path in ("shim", "recorded", "bare")
    }
    return {"threads": threads, "calls": calls} | threads_us(ways, 5, calls)


def measure(rounds: int) -> dict[str, Any]:
    """Every size in bfloat16, and in float32 those that do not take long; then the threads."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    launcher = Launcher()
    results = [
        _measure_size(launcher, *size, dtype, True, rounds)
        for dtype in (torch.bfloat16, torch.float32)
        for size in SIZES
        if dtype == torch.bfloat16 or size[0] <= 4096
    ]
    return {"mm": results, "threads": _measure_threads(launcher)}


def table(report: dict[str, Any]) -> str:
    """One line a size: the shim's times, torch.mm's, and the host's where products are recorded."""
    gpu_columns, host_columns = ("GPU us", "torch", "ratio"), ("host us", "torch", "ratio")
    header = [*gpu_columns, *host_columns, "recorded", "ratio", "TFLOP/s"]
    rows: list[list[str | float]] = [["dtype", "m, k, n", *header]]
    for row in report["mm"]:
        gpu, host = row["gpu_us"], row["host_us"]
        cells = [row["dtype"], ", ".join(map(str, row["size"]))]
        cells += [gpu["shim"], gpu["torch"], gpu["shim"] / gpu["torch"]]
        cells += [host["shim"], host["torch"], host["shim"] / host["torch"]]
        cells += [host["recorded"], host["recorded"] / host["torch"], row["tflops"]["shim"]]
        rows.append(cells)
    threads = report["threads"]
    shim, recorded, bare = (threads[way] for way in ("shim", "recorded", "bare"))
    return (
        f"{text_table(rows, left=2)}\n{threads['threads']} threads x {threads['calls']} calls: "
        f"{shim} us a call on the host, a bare cuBLAS loop {bare} ({shim / bare:.2f}), "
        f"recorded {recorded} ({recorded / bare:.2f})"
    )
