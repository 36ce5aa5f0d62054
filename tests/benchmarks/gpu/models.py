"""Whole models: eager, torch.compile, torch.compile with reduce-overhead, and ours, side by side.

Tensors stay on the device. For each way: latency (host clock around one call and a wait), host cost
(host clock around calls without a wait) and time on the GPU (CUDA events around a batch), medians
over interleaved rounds, in microseconds.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Launch = Callable[[int], float]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, layers: int = 8, width: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        channels = (3, 32, 64, 128)
        self.layers = nn.Sequential(
            *(
                layer
                for a, b in zip(channels, channels[1:], strict=False)
                for layer in (
                    nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False),
                    nn.BatchNorm2d(b),
                    nn.ReLU(),
                )
            )
        )
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp_b8": (Mlp, (8, 1024)),
    "transformer_t1": (Transformer, (1, 1, 1024)),
    "transformer_t16": (Transformer, (1, 16, 1024)),
    "convnet_b8": (ConvNet, (8, 3, 64, 64)),
}


class Launcher:
    """The C++ side; see model_launcher.cpp."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.model_open.restype = ctypes.c_void_p
        self._c.model_open.argtypes = [ctypes.c_char_p] * 3
        self._c.model_run.restype = ctypes.c_int64
        self._c.model_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        self._c.model_set_input.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int64),
        ]
        self._c.model_set_output.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int64,
        ]
        self._c.model_copy_output.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

    def open(
        self, program: Path, data: Path | None, x: torch.Tensor, out: torch.Tensor
    ) -> tuple[Launch, Callable[[], torch.Tensor]]:
        """Loads `program` with bfloat16 `x` as its input and `out` as its output's memory; returns
        how to run it and how to see what the last run computed."""
        model = self._c.model_open(str(program).encode(), str(data or "").encode(), b"forward")
        if not model:
            raise RuntimeError("model_open failed")
        sizes = (ctypes.c_int64 * x.dim())(*x.shape)
        if self._c.model_set_input(model, 0, x.data_ptr(), 15, x.dim(), sizes) < 0:
            raise RuntimeError("model_set_input failed")
        if self._c.model_set_output(model, 0, out.data_ptr(), out.nbytes) < 0:
            raise RuntimeError("model_set_output failed")

        def launch(count: int) -> float:
            ns = self._c.model_run(model, None, count)
            if ns < 0:
                raise RuntimeError("model_run failed")
            return ns / count / 1e3

        def result() -> torch.Tensor:
            seen = torch.empty_like(out)
            if self._c.model_copy_output(model, 0, seen.data_ptr()) < 0:
                raise RuntimeError("model_copy_output failed")
            return seen

        return launch, result


def _timed(call: Callable[[], Any]) -> Launch:
    def launch(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count * 1e6

    return launch


def lower(module: nn.Module, x: torch.Tensor, folder: Path, **options: Any) -> tuple[Path, Any]:
    """Our program for `module` on the device: its path, and its weights' if they have one."""
    from backends.cuda import CudaOptions, CudaPartitioner
    from exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    with torch.no_grad():
        exported = torch.export.export(module.cpu(), (x.cpu(),))
    manager = to_edge_transform_and_lower(
        exported, partitioner=[CudaPartitioner(CudaOptions(**options))]
    )
    program = manager.to_executorch(
        ExecutorchBackendConfig(skip_h2d_for_method_inputs=True, skip_d2h_for_method_outputs=True)
    )
    path = folder / "model.pte"
    program.save(path)
    program.write_tensor_data_to_file(folder)
    return path, next(iter(folder.glob("*.ptd")), None)


def ways_of(
    module: nn.Module, x: torch.Tensor, launcher: Launcher, folder: Path, gemms: tuple[str, ...]
) -> tuple[dict[str, Launch], dict[str, float]]:
    """Each way to run `module`, warmed up, and its error relative to float64."""
    from runtime import Runtime

    with torch.no_grad():
        exact = module.double()(x.double())
    module = module.to(x.dtype)
    ways: dict[str, Launch] = {}
    errors: dict[str, float] = {}

    def add(name: str, launch: Launch, result: Callable[[], torch.Tensor]) -> None:
        launch(5)
        torch.cuda.synchronize()
        found = result()
        torch.cuda.synchronize()
        errors[name] = float((found.double() - exact).norm() / exact.norm())
        ways[name] = launch

    eager = module.eval()
    with torch.no_grad():
        add("eager", _timed(lambda: eager(x)), lambda: eager(x))
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            compiled = torch.compile(eager, mode=mode)
            name = "compile" if mode == "default" else "reduce_overhead"
            add(
                name, _timed(lambda compiled=compiled: compiled(x)), lambda c=compiled: c(x).clone()
            )
    for gemm in gemms:
        place = folder / gemm
        place.mkdir()
        path, data = lower(module, x, place, gemm=gemm)
        module.cuda()
        out = torch.empty_like(exact, dtype=x.dtype)
        add(f"ours_cpp_{gemm}", *launcher.open(path, data, x, out))
        method = Runtime.get().load_program(path, data_path=data and [data]).load_method("forward")
        add(
            f"ours_python_{gemm}",
            _timed(lambda method=method: method.execute([x])),
            lambda method=method: method.execute([x])[0],
        )
    return ways, errors


def measure(ways: dict[str, Launch], rounds: int, batch: int = 50) -> dict[str, dict[str, float]]:
    """Medians over interleaved rounds."""
    samples: dict[str, dict[str, list[float]]] = {
        name: {"latency_us": [], "host_us": [], "gpu_us": []} for name in ways
    }
    with torch.no_grad():
        for _ in range(rounds):
            for name, launch in ways.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                launch(1)
                torch.cuda.synchronize()
                samples[name]["latency_us"].append((time.perf_counter() - start) * 1e6)
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                host = launch(batch)
                end.record()
                torch.cuda.synchronize()
                samples[name]["host_us"].append(host)
                samples[name]["gpu_us"].append(begin.elapsed_time(end) / batch * 1e3)
    return {
        name: {key: round(statistics.median(values), 2) for key, values in kinds.items()}
        for name, kinds in samples.items()
    }


def main(library: str, out: str, rounds: str = "30", gemms: str = "cublas") -> None:
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    launcher = Launcher(Path(library))
    report = {}
    for name, (build, sizes) in CASES.items():
        torch.manual_seed(0)
        x = torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)
        with tempfile.TemporaryDirectory() as folder:
            try:
                ways, errors = ways_of(
                    build().eval().cuda(), x, launcher, Path(folder), tuple(gemms.split(","))
                )
                report[name] = {"times": measure(ways, int(rounds)), "relative_error": errors}
            except Exception as error:  # one case must not take the others with it
                report[name] = {"failed": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(report[name]), flush=True)
    Path(out).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
