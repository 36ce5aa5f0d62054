"""What a model costs besides its time a call: file size, load time, memory, time to a first result.

  tools/bazel run //tests/benchmarks:footprint -- --models=linear,large --json=$HOME/footprint.json

Each contender runs in a fresh process of its own, several times in turn with the others: our
runner (no Python), and a Python process that loads an AOTInductor package, which needs libtorch.
The median counts. Peak memory is the resident set, mapped files included.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from absl import app, flags, logging
from rich.console import Console
from rich.table import Table

from backends.cpu import CpuOptions
from tests.e2e.lowering import flat_inputs, lower_program, save_tensors
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, randn

_MODELS = flags.DEFINE_list("models", ["linear", "encoder", "large"], "Names of models.")
_ISA = flags.DEFINE_string("isa", "native", "Instruction set of our programs.")
_RUNS = flags.DEFINE_integer("runs", 5, "Fresh processes for each contender.", lower_bound=1)
_LARGE_LAYERS = flags.DEFINE_integer("large_layers", 16, "Layers of `large`, 64 MiB each.")
_JSON = flags.DEFINE_string("json", "", "Where to write the results as JSON.")

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Of one process; times in milliseconds, `load_ms` as the process itself measured it."""

    file_mib: float
    load_ms: float
    start_to_result_ms: float
    peak_rss_mib: float


def large_sample() -> Sample:
    """Layers of 4096 x 4096 floats, which nothing shares: a gigabyte by default."""

    def build() -> torch.nn.Module:
        layers: list[torch.nn.Module] = []
        for _ in range(_LARGE_LAYERS.value):
            layers += [torch.nn.Linear(4096, 4096), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers)

    return Sample("large", build, lambda seed: (randn(seed, 4, 4096),))


def runner_command(program: pathlib.Path, inputs: pathlib.Path) -> list[str]:
    """Runs once and once more, which makes the runner say how long the load took."""
    runner = os.environ["RUNNER"]
    return [runner, "--program", str(program), "--inputs", str(inputs), "--repeat", "1"]


def package_command(package: pathlib.Path, inputs: pathlib.Path) -> list[str]:
    """The same with an AOTInductor package and libtorch."""
    script = pathlib.Path(__file__).with_name("run_aoti_package.py")
    return [sys.executable, str(script), str(package), str(inputs)]


def run(command: list[str], file_nbytes: int) -> Footprint:
    """Runs `command` to its end."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed_ms = (time.perf_counter() - start) * 1e3
    process.returncode = os.waitstatus_to_exitcode(status)
    load = re.search(r"load (\d+) us", output)
    if process.returncode or not load:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {output}")
    return Footprint(
        file_nbytes / _MIB, int(load[1]) / 1e3, elapsed_ms, usage.ru_maxrss * 1024 / _MIB
    )


def measure(sample: Sample, folder: pathlib.Path) -> dict[str, Footprint]:
    """Medians for each contender."""
    inputs = folder / "inputs.safetensors"
    save_tensors(inputs, "input", flat_inputs(sample, 0))
    program = folder / f"{sample.name}.pte"
    logging.info("%s: making our program", sample.name)
    lower_program(sample, sample.module(), CpuOptions(isa=_ISA.value)).save(str(program))
    package = folder / f"{sample.name}.pt2"
    logging.info("%s: making an AOTInductor package", sample.name)
    with torch.no_grad():
        torch._inductor.aoti_compile_and_package(sample.export(), package_path=str(package))
    commands = {
        "pteron runner": (runner_command(program, inputs), program),
        "aoti, libtorch": (package_command(package, inputs), package),
    }
    found: dict[str, list[Footprint]] = {name: [] for name in commands}
    for _ in range(_RUNS.value):
        for name, (command, file) in commands.items():
            found[name].append(run(command, file.stat().st_size))
    for path in (program, package, inputs):
        path.unlink()
    return {name: _median(runs) for name, runs in found.items()}


def _median(runs: list[Footprint]) -> Footprint:
    columns = zip(*map(dataclasses.astuple, runs), strict=True)
    return Footprint(*(statistics.median(column) for column in columns))


def stripped_runner_nbytes(folder: pathlib.Path) -> int:
    """Size of the runner, CPU backend included, as it would be shipped."""
    stripped = folder / "runner"
    subprocess.run(["strip", "-o", str(stripped), os.environ["RUNNER"]], check=True)
    return stripped.stat().st_size


def main(argv: list[str]) -> None:
    del argv
    samples = {sample.name: sample for sample in (*NETWORKS, large_sample())}
    if unknown := set(_MODELS.value) - set(samples):
        raise app.UsageError(f"--models: unknown {sorted(unknown)}; known: {sorted(samples)}")
    table = Table(title=f"medians of {_RUNS.value} fresh processes")
    table.add_column("model")
    table.add_column("contender")
    for name in ("file MiB", "load ms", "start to result ms", "peak RSS MiB", "RSS / file"):
        table.add_column(name, justify="right")
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in _MODELS.value:
            measured = measure(samples[name], folder)
            results[name] = {who: dataclasses.asdict(row) for who, row in measured.items()}
            for who, row in measured.items():
                cells = [f"{value:.1f}" for value in dataclasses.astuple(row)]
                table.add_row(name, who, *cells, f"{row.peak_rss_mib / row.file_mib:.2f}")
        runner_nbytes = stripped_runner_nbytes(folder)
    Console(width=120).print(table)
    print(f"runner with the CPU backend, stripped: {runner_nbytes} bytes")
    if _JSON.value:
        report = {"isa": _ISA.value, "runner_stripped_bytes": runner_nbytes, "models": results}
        pathlib.Path(_JSON.value).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    app.run(main)
