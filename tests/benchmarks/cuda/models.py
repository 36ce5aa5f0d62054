"""Whole models: eager, torch.compile, torch.compile with reduce-overhead, and ours, side by side.

`ours_prepared` is after Method.prepare(), which makes CUDA graphs.

Tensors stay on the device, in bfloat16 or float16. The overhead of a call is its latency less its
kernels.
"""

import copy
import ctypes
import dataclasses
import functools
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.benchmarks.cuda.networks import CASES
from tests.benchmarks.cuda.timing import Launch, interleaved, kernels_us, timed

#: As the C++ side knows them.
_CODES = {torch.float16: 5, torch.bfloat16: 15}

LIBRARY = Path(__file__).with_name("libmodel_launcher.so")


class Launcher:
    """The C++ side; see model_launcher.cpp."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.model_open.restype = ctypes.c_void_p
        self._c.model_open.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_int]
        self._c.model_open_again.restype = ctypes.c_void_p
        self._c.model_open_again.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
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
        self._c.model_prepare.argtypes = [ctypes.c_void_p]
        self._c.model_copy_output.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

    def open(
        self,
        program: Path,
        data: Path | None,
        x: torch.Tensor,
        out: torch.Tensor,
        recorded: bool = False,
        prepared: bool = False,
    ) -> tuple[Launch, Callable[[], torch.Tensor]]:
        """Loads `program` with `x` as its input and `out` as its output's memory, with the option
        record_products if `recorded`, and prepares it if `prepared`; returns how to run it and how
        to see what the last run computed."""
        model = self._bind(self._open(program, data, recorded), x, out)
        if prepared and self._c.model_prepare(model) < 0:
            raise RuntimeError("model_prepare failed")
        return lambda count: self._run(model, 0, count), lambda: self._result(model, out)

    def _open(self, program: Path, data: Path | None, recorded: bool) -> int | None:
        names = (str(program).encode(), str(data or "").encode(), b"forward")
        return self._c.model_open(*names, recorded)

    def open_for_threads(
        self,
        program: Path,
        data: Path | None,
        x: torch.Tensor,
        outs: list[torch.Tensor],
        recorded: bool = False,
    ) -> list[tuple[Callable[[int, int], float], Callable[[], torch.Tensor]]]:
        """One method of the same program for each of `outs`; a run takes the stream's handle, too.
        Methods may run at the same time."""
        first = self._open(program, data, recorded)
        models = [first]
        models += [self._c.model_open_again(first, b"forward") for _ in outs[1:]]
        ways = []
        for model, out in zip(models, outs, strict=True):
            self._bind(model, x, out)
            ways.append(
                (functools.partial(self._run, model), functools.partial(self._result, model, out))
            )
        return ways

    def _bind(self, model: int | None, x: torch.Tensor, out: torch.Tensor) -> int:
        if not model:
            raise RuntimeError("model_open failed")
        sizes = (ctypes.c_int64 * x.dim())(*x.shape)
        if self._c.model_set_input(model, 0, x.data_ptr(), _CODES[x.dtype], x.dim(), sizes) < 0:
            raise RuntimeError("model_set_input failed")
        if self._c.model_set_output(model, 0, out.data_ptr(), out.nbytes) < 0:
            raise RuntimeError("model_set_output failed")
        return model

    def _run(self, model: int, stream: int, count: int) -> float:
        ns = self._c.model_run(model, stream, count)
        if ns < 0:
            raise RuntimeError("model_run failed")
        return ns / count / 1e3

    def _result(self, model: int, like: torch.Tensor) -> torch.Tensor:
        seen = torch.empty_like(like)
        if self._c.model_copy_output(model, 0, seen.data_ptr()) < 0:
            raise RuntimeError("model_copy_output failed")
        return seen


def lower(module: nn.Module, x: torch.Tensor, folder: Path, **options: Any) -> tuple[Path, Any]:
    """Our program for `module` on the device: its path, and its weights' if they have one."""
    from pteron.backends.cuda import CudaOptions, CudaPartitioner
    from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    with torch.no_grad():
        exported = torch.export.export(copy.deepcopy(module), (x,))
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
    module: nn.Module,
    x: torch.Tensor,
    launcher: Launcher,
    folder: Path,
    gemms: tuple[str, ...],
    modes: tuple[str, ...],
) -> tuple[dict[str, Launch], dict[str, float]]:
    """Each way to run `module`, warmed up, and its error relative to float64."""
    from pteron.runtime import Runtime

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
        add("eager", timed(lambda: eager(x)), lambda: eager(x))
        for mode in modes:
            torch._dynamo.reset()
            compiled = torch.compile(eager, mode=mode)
            name = "compile" if mode == "default" else mode.replace("-", "_")
            add(name, timed(lambda compiled=compiled: compiled(x)), lambda c=compiled: c(x).clone())
    for gemm in gemms:
        directory = folder / gemm
        directory.mkdir()
        path, data = lower(module, x, directory, gemm=gemm)
        out = torch.empty_like(exact, dtype=x.dtype)
        add(f"ours_cpp_{gemm}", *launcher.open(path, data, x, out))
        if gemm != "triton":
            add(f"ours_recorded_{gemm}", *launcher.open(path, data, x, out, recorded=True))
        add(f"ours_prepared_{gemm}", *launcher.open(path, data, x, out, prepared=True))
        for name in ("python", "prepared_python"):
            loaded = Runtime.get().load_program(path, data_path=data and [data])
            method = loaded.load_method("forward")
            if name == "prepared_python":
                method.prepare([x])
            add(
                f"ours_{name}_{gemm}",
                timed(lambda method=method: method.execute([x])),
                lambda method=method: method.execute([x])[0],
            )
    return ways, errors


def measure(
    rounds: int, gemms: tuple[str, ...], modes: tuple[str, ...], cases: Iterable[str] = ()
) -> dict[str, Any]:
    """Times, errors and the overhead of a call for each case; why it failed where it did."""
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    launcher = Launcher(LIBRARY)
    report: dict[str, Any] = {}
    for name, case in CASES.items():
        if cases and name not in cases:
            continue
        torch.manual_seed(0)
        x = torch.randn(*case.sizes, device="cuda", dtype=case.dtype)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            try:
                module = case.build().eval().cuda()
                ways, errors = ways_of(module, x, launcher, Path(folder), gemms, modes)
                times = interleaved(ways, rounds, batch=20)
                kernels = {way: kernels_us(launch) for way, launch in ways.items()}
            except Exception as error:  # one case must not take the others with it
                report[name] = {"failed": f"{type(error).__name__}: {error}"}
                continue
        report[name] = {
            "times": {way: dataclasses.asdict(taken) for way, taken in times.items()},
            "kernels_us": kernels,
            "overhead_us": {
                way: round(taken.latency_us - kernels[way], 2) for way, taken in times.items()
            },
            "relative_error": errors,
        }
    return report


def table(report: dict[str, Any]) -> str:
    """One line for each way to run each case."""
    lines = [
        f"{'case':<16} {'way':<27} {'latency':>8} {'paced':>8} {'host':>8} {'kernels':>8} "
        f"{'overhead':>8} {'error':>9}   (us a call)"
    ]
    for case, row in report.items():
        if "failed" in row:
            lines.append(f"{case:<16} failed: {row['failed'][:300]}")
            continue
        for way, taken in row["times"].items():
            lines.append(
                f"{case:<16} {way:<27} {taken['latency_us']:>8.1f} {taken['paced_us']:>8.1f} "
                f"{taken['host_us']:>8.1f} {row['kernels_us'][way]:>8.1f} "
                f"{row['overhead_us'][way]:>8.1f} {row['relative_error'][way]:>9.1e}"
            )
    return "\n".join(lines)
