"""What a model takes of the GPU, weights included: eager, and ours after Method.prepare().

Each way has a process of its own, and ours another one that lowers. Megabytes are what the device
has less after a few calls than when there was a CUDA context and nothing else: tensors, kernels and
the workspaces of libraries alike. Nobody else may use the GPU meanwhile.
"""

import concurrent.futures
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from pteron.command.contender import text_table
from tests.benchmarks.cuda.models import Launcher, lower
from tests.benchmarks.cuda.networks import CASES
from tests.benchmarks.cuda.timing import relative_error

_CALLS = 3
# Of 16-bit results, relative.
_MAX_ERROR = 0.03


def _taken_mb(run: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    run()
    torch.cuda.synchronize()
    return round((before - torch.cuda.mem_get_info()[0]) / 1e6, 1)


def _eager(name: str) -> float:
    torch.zeros(1, device="cuda")

    def run() -> None:
        case = CASES[name]
        module, x = case.build().eval().to(case.dtype).cuda(), case.input()
        with torch.no_grad():
            for _ in range(_CALLS):
                module(x)

    return _taken_mb(run)


def _lower(name: str, folder: Path) -> None:
    """Writes the program, and the input and output of eager."""
    case = CASES[name]
    module, x = case.build().eval().to(case.dtype).cuda(), case.input()
    with torch.no_grad():
        y = module(x)
        lower(module, (x,), folder)
    torch.save((x.cpu(), y.cpu()), folder / "sample.pt")


def _ours(name: str, folder: Path) -> float:
    x, y = torch.load(folder / "sample.pt")
    x, out = x.cuda(), torch.empty_like(y, device="cuda")
    data = next(iter(folder.glob("*.ptd")), None)
    launcher = Launcher()

    def run() -> Callable[[], torch.Tensor]:
        launch, result = launcher.open(folder / "model.pte", data, (x,), out, prepared=True)
        launch(_CALLS)
        return result

    results: list[Callable[[], torch.Tensor]] = []
    taken = _taken_mb(lambda: results.append(run()))
    error = relative_error(results[0]().cpu(), y)
    if not error < _MAX_ERROR:
        raise AssertionError(f"{name}: ours differs from eager by {error:.1e}")
    return taken


def _in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def measure(names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Megabytes of each way, by case; of all cases without names."""
    report = {}
    for name in list(names) or CASES:
        with tempfile.TemporaryDirectory() as folder:
            _in_a_process(_lower, name, Path(folder))
            report[name] = {
                "eager": _in_a_process(_eager, name),
                "ours": _in_a_process(_ours, name, Path(folder)),
            }
    return report


def table(report: dict[str, dict[str, float]]) -> str:
    """One line for each case."""
    rows: list[list[str | float]] = [["case", "eager", "ours", "ours/eager"]]
    for name, row in report.items():
        rows.append([name, row["eager"], row["ours"], row["ours"] / row["eager"]])
    return f"MB of the GPU\n{text_table(rows)}"
