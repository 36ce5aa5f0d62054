"""What a model costs besides its time a call: file size, load time, memory, time to a first result.

  tools/bazel run //tests/benchmarks:footprint -- --models=linear,large --json=$HOME/footprint.json

Each contender runs in fresh processes of its own, several times in turn with the others: our
runner (no Python), and a Python process that loads an AOTInductor package, which needs libtorch.
The median counts. Start to result is the life of a process that runs the model once; a second
process runs it twice and says how long the load took, how much memory was resident at most, mapped
files included, and how large those files are: the program, its code, and all libraries.
"""

import dataclasses
import functools
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

from pteron.backends.cpu import CpuOptions
from pteron.command.contender import by_turns, text_table
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
    """Times in milliseconds; load and memory as the process itself measured them."""

    file_mib: float
    load_ms: float
    start_to_result_ms: float
    peak_rss_mib: float
    mapped_files_mib: float


def large_sample() -> Sample:
    """Layers of 4096 x 4096 floats, which nothing shares: a gigabyte by default."""

    def build() -> torch.nn.Module:
        layers: list[torch.nn.Module] = []
        for _ in range(_LARGE_LAYERS.value):
            layers += [torch.nn.Linear(4096, 4096), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers)

    return Sample("large", build, lambda seed: (randn(seed, 4, 4096),))


def runner_command(program: pathlib.Path, inputs: pathlib.Path) -> list[str]:
    """Runs once; with `--repeat 1` once more, and says what it cost."""
    return [os.environ["RUNNER"], "--program", str(program), "--inputs", str(inputs)]


def package_command(package: pathlib.Path, inputs: pathlib.Path) -> list[str]:
    """The same with an AOTInductor package and libtorch."""
    script = pathlib.Path(__file__).with_name("run_aoti_package.py")
    return [sys.executable, str(script), "--package", str(package), "--inputs", str(inputs)]


def run(command: list[str], file_nbytes: int) -> Footprint:
    """Runs `command` to its end, twice.

    Raises:
        RuntimeError: it failed or did not say what was asked.
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))

    def output_of(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    start = time.perf_counter()
    output_of()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    report = output_of("--repeat", "1")
    load = re.search(r"load (\d+) us", report)
    peak = re.search(r"peak memory (\d+) KiB", report)
    mapped = re.search(r"mapped files (\d+) KiB", report)
    if not load or not peak or not mapped:
        raise RuntimeError(f"{command[0]} says nothing of its load or memory: {report}")
    return Footprint(
        file_mib=file_nbytes / _MIB,
        load_ms=int(load[1]) / 1e3,
        start_to_result_ms=elapsed_ms,
        peak_rss_mib=int(peak[1]) / 1024,
        mapped_files_mib=int(mapped[1]) / 1024,
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
    ways = {
        name: functools.partial(run, command, file.stat().st_size)
        for name, (command, file) in commands.items()
    }
    found = by_turns(ways, _RUNS.value)
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
    header = ("file MiB", "load ms", "start to result ms", "peak RSS MiB", "mapped MiB")
    rows: list[list[str | float]] = [["model", "contender", *header]]
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in _MODELS.value:
            measured = measure(samples[name], folder)
            results[name] = {who: dataclasses.asdict(row) for who, row in measured.items()}
            rows += [[name, who, *dataclasses.astuple(row)] for who, row in measured.items()]
        runner_nbytes = stripped_runner_nbytes(folder)
    print(f"medians of {_RUNS.value} fresh processes\n{text_table(rows, left=2)}")
    print(f"runner with the CPU backend, stripped: {runner_nbytes} bytes")
    if _JSON.value:
        report = {"isa": _ISA.value, "runner_stripped_bytes": runner_nbytes, "models": results}
        pathlib.Path(_JSON.value).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    app.run(main)
