"""Latency of the sample networks on this machine's CPU, side by side in one run.

  tools/bazel run //tests/benchmarks:cpu -- --json=$HOME/cpu.json

Every contender is made first; then rounds go through all of them in turn, so that whatever else
the machine does hits them alike. The median over rounds counts. A result that differs from eager's
is an error, not a time.

Nobody's settings are touched. Threads that wait for their library's next call spin for a while and
would take the cores from the next contender, so each turn begins with a pause, in which they go to
sleep, and with calls that are not timed, which wake its own.
"""

import json
import pathlib
import platform
import statistics
import tempfile
import time

import torch
from absl import app, flags, logging
from rich.console import Console
from rich.table import Table

from tests.benchmarks import contenders
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, max_relative_error

_MODELS = flags.DEFINE_list("models", [], "Names of models; all if empty.")
_CONTENDERS = flags.DEFINE_list(
    "contenders", ["eager", "torch.compile", "aoti", "xnnpack", "pteron"], "Who takes part."
)
_ISA = flags.DEFINE_string("isa", "native", "Instruction set of our programs.")
_ROUNDS = flags.DEFINE_integer("rounds", 30, "Rounds through all contenders.")
_MIN_ROUND_MS = flags.DEFINE_float("min_round_ms", 5.0, "Calls of one turn take at least so long.")
_PAUSE_MS = flags.DEFINE_float("pause_ms", 20.0, "Pause before each turn.")
_JSON = flags.DEFINE_string("json", "", "Where to write the results as JSON.")

_PEERS = ("eager", "torch.compile", "aoti", "xnnpack")


def main(argv: list[str]) -> None:
    del argv
    makers = {
        "eager": contenders.eager,
        "torch.compile": contenders.torch_compile,
        "aoti": contenders.aoti_package,
        "xnnpack": contenders.xnnpack,
        "pteron": contenders.pteron(_ISA.value),
    }
    if unknown := set(_CONTENDERS.value) - set(makers):
        raise app.UsageError(f"--contenders: unknown {sorted(unknown)}; known: {sorted(makers)}")
    names = {sample.name for sample in NETWORKS}
    if unknown := set(_MODELS.value) - names:
        raise app.UsageError(f"--models: unknown {sorted(unknown)}; known: {sorted(names)}")
    results = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for sample in NETWORKS:
            if not _MODELS.value or sample.name in _MODELS.value:
                made = {name: makers[name] for name in _CONTENDERS.value}
                results[sample.name] = measure(sample, made, pathlib.Path(folder))
    print_table(results)
    if _JSON.value:
        report = {
            "machine": {"cpu": cpu_name(), "threads": torch.get_num_threads()},
            "torch": torch.__version__,
            "isa": _ISA.value,
            "rounds": _ROUNDS.value,
            "median_us": results,
        }
        pathlib.Path(_JSON.value).write_text(json.dumps(report, indent=2) + "\n")


def measure(
    sample: Sample, makers: dict[str, contenders.Maker], folder: pathlib.Path
) -> dict[str, float | str]:
    """Median microseconds a call for each contender, or why it has none."""
    result: dict[str, float | str] = {}
    calls = {}
    reference = sample.module()(*sample.inputs(0))
    for name, make in makers.items():
        logging.info("%s: making %s", sample.name, name)
        try:
            call = make(sample, folder)
            error = max_relative_error(torch.as_tensor(call()[0]), reference)
        except Exception as problem:  # a contender that fails is a row in the table
            result[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"
            logging.warning("%s: %s: %s", sample.name, name, result[name])
            continue
        if error > 1e-3:
            result[name] = f"wrong: relative error {error:.1e}"
            continue
        calls[name] = call
    repeats = {name: _repeats(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS.value):
        for name, call in calls.items():
            time.sleep(_PAUSE_MS.value / 1e3)
            for _ in range(2):
                call()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - start) / repeats[name] * 1e6)
    result.update({name: statistics.median(values) for name, values in times.items()})
    return {name: result[name] for name in makers}


def _repeats(call: contenders.Contender) -> int:
    """Calls a round, so that it is long against the clock; also warms up."""
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    return max(1, round(_MIN_ROUND_MS.value / 1e3 / (time.perf_counter() - start)))


def print_table(results: dict[str, dict[str, float | str]]) -> None:
    """One row a model: microseconds, and our ratio to the best peer (below 1 is faster)."""
    table = Table(title=f"median us a call, {cpu_name()}, {torch.get_num_threads()} threads")
    table.add_column("model")
    for name in _CONTENDERS.value:
        table.add_column(name, justify="right")
    table.add_column("pteron / best peer", justify="right")
    table.add_column("pteron / best of torch", justify="right")
    for model, row in results.items():
        cells = [f"{v:.1f}" if isinstance(v, float) else "-" for v in row.values()]
        table.add_row(model, *cells, _ratio(row, _PEERS), _ratio(row, ("eager", "torch.compile")))
    Console(width=140).print(table)
    for model, row in results.items():
        for name, value in row.items():
            if isinstance(value, str):
                print(f"{model}: {name}: {value}")


def _ratio(row: dict[str, float | str], peers: tuple[str, ...]) -> str:
    ours = row.get("pteron")
    theirs = [row[p] for p in peers if isinstance(row.get(p), float)]
    return f"{ours / min(theirs):.2f}" if isinstance(ours, float) and theirs else "-"


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    path = pathlib.Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    app.run(main)
