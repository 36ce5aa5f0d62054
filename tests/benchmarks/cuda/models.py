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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pteron.command.contender import text_table
from tests.benchmarks.cuda.native import open_native
from tests.benchmarks.cuda.networks import CASES, Case
from tests.benchmarks.cuda.timing import (
    Launch,
    OnStream,
    interleaved,
    kernels_us,
    relative_error,
    timed,
)

#: As the C++ side knows them.
_CODES = {torch.int64: 4, torch.float16: 5, torch.bool: 11, torch.bfloat16: 15}

#: `cudaStreamLegacy`: torch gives 0 for it, which says nothing here.
_LEGACY_STREAM = 1


class Launcher:
    """The C++ side; see model_launcher.cpp."""

    def __init__(self) -> None:
        pointer, number, size, text = (
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_char_p,
        )
        sizes = ctypes.POINTER(size)
        self._c = open_native(
            "libmodel_launcher.so",
            model_open=(pointer, text, text, text, number),
            model_open_again=(pointer, pointer, text),
            model_run=(size, pointer, pointer, number),
            model_set_input=(number, pointer, number, pointer, number, number, sizes),
            model_set_output=(number, pointer, number, pointer, size),
            model_prepare=(number, pointer),
            model_copy_output=(number, pointer, number, pointer),
        )

    def open(
        self,
        program: Path,
        data: Path | None,
        inputs: tuple[torch.Tensor, ...],
        out: torch.Tensor,
        recorded: bool = False,
        prepared: bool = False,
    ) -> tuple[Launch, Callable[[], torch.Tensor]]:
        """Loads `program` with `inputs` and `out` as its output's memory, with the option
        record_products if `recorded`, and prepares it if `prepared`; returns how to run it and how
        to see what the last run computed."""
        model = self._bind(self._open(program, data, recorded), inputs, out)
        if prepared:
            self._c.model_prepare(model)

        # On the stream of torch's own work. A method's own one waits for the default stream: for
        # each launch, if something is queued there, which takes another microsecond of the GPU.
        def launch(count: int) -> float:
            stream = torch.cuda.current_stream().cuda_stream
            return self._run(model, stream or _LEGACY_STREAM, count)

        return launch, lambda: self._result(model, out)

    def _open(self, program: Path, data: Path | None, recorded: bool) -> int:
        names = (str(program).encode(), str(data or "").encode(), b"forward")
        return self._c.model_open(*names, recorded)

    def open_for_threads(
        self,
        program: Path,
        data: Path | None,
        x: torch.Tensor,
        outs: list[torch.Tensor],
        recorded: bool = False,
    ) -> list[tuple[OnStream, Callable[[], torch.Tensor]]]:
        """One method of the same program for each of `outs`; a run takes the stream's handle, too.
        Methods may run at the same time."""
        first = self._open(program, data, recorded)
        models = [first]
        models += [self._c.model_open_again(first, b"forward") for _ in outs[1:]]
        ways = []
        for model, out in zip(models, outs, strict=True):
            self._bind(model, (x,), out)
            ways.append(
                (functools.partial(self._run, model), functools.partial(self._result, model, out))
            )
        return ways

    def _bind(self, model: int, inputs: tuple[torch.Tensor, ...], out: torch.Tensor) -> int:
        for i, x in enumerate(inputs):
            sizes = (ctypes.c_int64 * x.dim())(*x.shape)
            self._c.model_set_input(model, i, x.data_ptr(), _CODES[x.dtype], x.dim(), sizes)
        self._c.model_set_output(model, 0, out.data_ptr(), out.nbytes)
        return model

    def _run(self, model: int, stream: int, count: int) -> float:
        return self._c.model_run(model, stream, count) / count / 1e3

    def _result(self, model: int, like: torch.Tensor) -> torch.Tensor:
        seen = torch.empty_like(like)
        self._c.model_copy_output(model, 0, seen.data_ptr())
        return seen


def lower(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], folder: Path, **options: Any
) -> tuple[Path, Any]:
    """Our program for `module` on the device: its path, and its weights' if they have one."""
    from pteron.backends.cuda import CudaOptions, CudaPartitioner
    from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    with torch.no_grad():
        exported = torch.export.export(copy.deepcopy(module), inputs)
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


_Way = tuple[Launch, Callable[[], torch.Tensor]]


@dataclasses.dataclass
class _Ways:
    """Each way to run a network, warmed up."""

    exact: torch.Tensor  # in float64
    launches: dict[str, Launch] = dataclasses.field(default_factory=dict)
    errors: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, name: str, way: _Way) -> None:
        launch, result = way
        launch(5)
        found = result()
        torch.cuda.synchronize()
        self.errors[name] = relative_error(found, self.exact)
        self.launches[name] = launch


def ways_of(
    case: Case, launcher: Launcher, folder: Path, gemms: tuple[str, ...], modes: tuple[str, ...]
) -> _Ways:
    """Torch's ways to run a case, and ours."""
    module, x = case.build().eval().cuda(), case.input()
    with torch.no_grad():
        exact = module.double()(x if case.ids else x.double())
    ways = _Ways(exact)
    eager = module.to(case.dtype)

    def add_torch(name: str, call: Callable[[torch.Tensor], torch.Tensor]) -> None:
        ways.add(name, (timed(lambda: call(x)), lambda: call(x).clone()))

    with torch.no_grad():
        add_torch("eager", eager)
        for mode in modes:
            torch._dynamo.reset()
            compiled = torch.compile(eager, mode=mode)
            add_torch("compile" if mode == "default" else mode.replace("-", "_"), compiled)
    for gemm in gemms:
        directory = folder / gemm
        directory.mkdir()
        path, data = lower(eager, (x,), directory, gemm=gemm)
        out = torch.empty_like(exact, dtype=case.dtype)
        open_program = functools.partial(launcher.open, path, data, (x,), out)
        ways.add(f"ours_cpp_{gemm}", open_program())
        if gemm != "triton":
            ways.add(f"ours_recorded_{gemm}", open_program(recorded=True))
        ways.add(f"ours_prepared_{gemm}", open_program(prepared=True))
        from_python = functools.partial(_open_from_python, path, data, x)
        ways.add(f"ours_python_{gemm}", from_python())
        ways.add(f"ours_prepared_python_{gemm}", from_python(prepared=True))
    return ways


def _open_from_python(
    program: Path, data: Path | None, x: torch.Tensor, prepared: bool = False
) -> _Way:
    from pteron.runtime import Runtime

    loaded = Runtime.get().load_program(program, data_path=data and [data])
    method = loaded.load_method("forward")
    if prepared:
        method.prepare([x])
    call = functools.partial(method.execute, [x])
    return timed(call), lambda: call()[0]


def measure(
    name: str, rounds: int, gemms: tuple[str, ...], modes: tuple[str, ...]
) -> dict[str, Any]:
    """Times, errors and the overhead of a call of a case; why it failed where it did."""
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        try:
            ways = ways_of(CASES[name], Launcher(), Path(folder), gemms, modes)
            times = interleaved(ways.launches, rounds, batch=20)
            kernels = {way: kernels_us(launch) for way, launch in ways.launches.items()}
        except Exception as error:  # one case must not take the others with it
            return {"failed": f"{type(error).__name__}: {error}"}
    return {
        "times": {way: dataclasses.asdict(taken) for way, taken in times.items()},
        "kernels_us": kernels,
        "overhead_us": {
            way: round(taken.latency_us - kernels[way], 2) for way, taken in times.items()
        },
        "relative_error": ways.errors,
    }


def table(report: dict[str, Any]) -> str:
    """One line for each way to run each case."""
    columns = ("latency", "paced", "host", "kernels", "overhead", "error")
    rows: list[list[str | float]] = [["case", "way", *columns]]
    failed = []
    for case, row in report.items():
        if "failed" in row:
            failed.append(f"{case} failed: {row['failed'][:300]}")
            continue
        for way, taken in row["times"].items():
            times = (taken[f"{name}_us"] for name in columns[:3])
            others = (row[key][way] for key in ("kernels_us", "overhead_us", "relative_error"))
            rows.append([case, way, *times, *others])
    return "\n".join(["us a call", text_table(rows, left=2), *failed])
