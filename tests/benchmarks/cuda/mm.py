"""Matmuls: the runtime's shim beside torch.mm, in interleaved rounds on one stream.

For each size: time on the GPU (CUDA events around batches of launches) and time on the host (the
clock around the same batches, for sizes that do not fill the launch queue), medians over rounds.
"""

import ctypes
import statistics
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.cuda.timing import Launch, interleaved, timed

LIBRARY = Path(__file__).with_name("libmm_launcher.so")

SIZES = ((1, 2048, 2048), (16, 2048, 8192), (512, 2048, 2048), (4096, 4096, 4096), (8192,) * 3)
PATHS = {"shim": 0, "cublas": 1, "cublasLt": 2, "bare": 3, "recorded": 4}
DTYPES = {torch.bfloat16: 15, torch.float32: 6}


class Launcher:
    """The C++ side; see mm_launcher.cpp."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.mm_make.restype = ctypes.c_void_p
        self._c.mm_make.argtypes = [
            ctypes.c_int,
            *[ctypes.c_int64] * 3,
            *[ctypes.c_void_p] * 3,
            ctypes.c_int,
        ]
        self._c.mm_launch.restype = ctypes.c_int64
        self._c.mm_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self._c.mm_launch_bare.restype = ctypes.c_int64
        self._c.mm_launch_bare.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int,
        ]
        self._c.mm_launch_threads.restype = ctypes.c_double
        self._c.mm_launch_threads.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3]

    def make(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> int:
        """A product of (m, k) with (k, n); `b` row- or column-major."""
        (m, k), n = a.shape, b.shape[1]
        made = self._c.mm_make(
            DTYPES[a.dtype],
            m,
            n,
            k,
            a.data_ptr(),
            b.data_ptr(),
            out.data_ptr(),
            int(b.stride(0) == 1 and b.shape[1] > 1),
        )
        if not made:
            raise RuntimeError("mm_make failed")
        return made

    def launch(self, product: int, count: int, path: str) -> float:
        """Launches; host microseconds a call."""
        stream = torch.cuda.current_stream().cuda_stream
        ns = self._c.mm_launch(product, stream, count, PATHS[path])
        if ns < 0:
            raise RuntimeError(f"{path} failed")
        return ns / count / 1e3

    def launch_bare(self, products: list[int], stream: int, count: int) -> float:
        """Launches all products in turn by cublasGemmEx alone; host microseconds a round."""
        array = (ctypes.c_void_p * len(products))(*products)
        ns = self._c.mm_launch_bare(array, len(products), stream, count)
        if ns < 0:
            raise RuntimeError("the bare loop failed")
        return ns / count / 1e3

    def launch_threads(self, product: int, threads: int, calls: int, path: str) -> float:
        """Host microseconds a call, with as many threads at once."""
        ns = self._c.mm_launch_threads(product, threads, calls, PATHS[path])
        if ns < 0:
            raise RuntimeError(f"{path} failed")
        return ns / 1e3


def measure(
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
        if path == "bare" and dtype not in (torch.float32, torch.bfloat16):
            continue
        ways[path] = lambda count, path=path: library.launch(product, count, path)
    expected = a.double() @ b.double() if m * k * n <= 1 << 31 else None
    errors = {}
    for name, launch in ways.items():
        out.fill_(float("nan"))
        launch(3)
        torch.cuda.synchronize()
        if expected is not None:
            errors[name] = float((out.double() - expected).norm() / expected.norm())
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


def measure_threads(library: Launcher, threads: int = 8, calls: int = 10_000) -> dict[str, Any]:
    """Host cost of a small product, with as many threads at once: the shim and a bare loop."""
    a = torch.randn(16, 64, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(16, 64, device="cuda", dtype=torch.bfloat16)
    product = library.make(a, b, out)
    rounds: dict[str, list[float]] = {"shim": [], "recorded": [], "bare": []}
    for _ in range(5):
        for path, times in rounds.items():
            times.append(library.launch_threads(product, threads, calls, path))
    return {"threads": threads, "calls": calls} | {
        path: round(statistics.median(times), 3) for path, times in rounds.items()
    }


def measure_all(rounds: int) -> dict[str, Any]:
    """Every size in bfloat16, and in float32 those that do not take long; then the threads."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    launcher = Launcher(LIBRARY)
    results = [
        measure(launcher, *size, dtype, True, rounds)
        for dtype in (torch.bfloat16, torch.float32)
        for size in SIZES
        if dtype == torch.bfloat16 or size[0] <= 4096
    ]
    return {"mm": results, "threads": measure_threads(launcher)}


def table(report: dict[str, Any]) -> str:
    """One line a size: the shim's times, torch.mm's, and the host's where products are recorded."""
    lines = [
        f"{'dtype':<9} {'m, k, n':<18} {'GPU us':>9} {'torch':>9} {'ratio':>6} "
        f"{'host us':>8} {'torch':>7} {'ratio':>6} {'recorded':>8} {'ratio':>6} {'TFLOP/s':>8}"
    ]
    for row in report["mm"]:
        gpu, host = row["gpu_us"], row["host_us"]
        lines.append(
            f"{row['dtype']:<9} {', '.join(map(str, row['size'])):<18} {gpu['shim']:>9.2f} "
            f"{gpu['torch']:>9.2f} {gpu['shim'] / gpu['torch']:>6.3f} {host['shim']:>8.2f} "
            f"{host['torch']:>7.2f} {host['shim'] / host['torch']:>6.2f} "
            f"{host['recorded']:>8.2f} {host['recorded'] / host['torch']:>6.2f} "
            f"{row['tflops']['shim']:>8.1f}"
        )
    threads = report["threads"]
    shim, recorded, bare = (threads[way] for way in ("shim", "recorded", "bare"))
    lines.append(
        f"{threads['threads']} threads x {threads['calls']} calls: {shim} us a call on the host, a "
        f"bare cuBLAS loop {bare} ({shim / bare:.2f}), recorded {recorded} ({recorded / bare:.2f})"
    )
    return "\n".join(lines)
