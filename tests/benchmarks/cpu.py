"""Latency of models on this machine's CPU, beside its peers; files, memory and load time, too.

  tools/bazel run //tests/benchmarks:cpu -- --json=$HOME/cpu.json --folder=$HOME/cpu

  tools/bazel run //tests/benchmarks:cpu -- --models=llama_160m_step \
      "--ways=xnnpack int8,onnxruntime int8,pteron,pteron int8"

The models are nine of `transformers` at full size, with random weights, and seven small ones of our
own; float32, batch 1. Everyone has two ways: with what comes by default, and as well as its options
make it. Each way has a process of its own and is called from Python: eager is Python throughout, of
the others one call runs the model (torch.compile checks its guards first). A way that differs from
eager is an error, not a time.

Every way's files are made first, then its process loads them, then rounds go through all processes
in turn, so that whatever else the machine does hits them alike. The median over rounds counts. A
turn is long: a process that did nothing for a while wakes up at first.
Nobody's settings are touched but the number of threads; the result says how many worked. Memory is
the most that the process had; torch.compile compiles in it. Making is exporting and compiling a
module that is there, in seconds of a core; the import is that of the runtime, by a process that has
numpy.

What the JSON file has is not measured again: peers' results of the same version, and ours of the
same commit. The folder keeps the files in the same way.
"""

import contextlib
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from absl import app, flags, logging
from rich.console import Console
from rich.table import Table

from pteron.command.contender import Contender
from tests.benchmarks.cpu_ways import ALL_WAYS, WAYS, made_s
from tests.models.full_size import FULL_SIZE
from tests.models.networks import NETWORKS

_NAMES = [*FULL_SIZE, *(sample.name for sample in NETWORKS)]
_MODELS = flags.DEFINE_list("models", _NAMES, "Which models.")
_WAYS = flags.DEFINE_list("ways", list(WAYS), "Which ways; eager is always made, to compare with.")
_ROUNDS = flags.DEFINE_integer("rounds", 30, "Rounds through all ways.", 1)
_MIN_ROUND_MS = flags.DEFINE_float("min_round_ms", 250, "Calls of a turn take at least so long.")
_THREADS = flags.DEFINE_integer("threads", len(os.sched_getaffinity(0)), "Of each way.", 1)
_JSON = flags.DEFINE_string("json", "", "Where results are, and are written to.")
_FOLDER = flags.DEFINE_string("folder", "", "Where the ways' files are kept.")
_MEASURE = flags.DEFINE_boolean("measure", True, "Without, only the files are made.")

_MAKE_S = 1800

_REST = {
    "make core s": "make_s",
    "file MB": "file_mb",
    "import ms": "import_ms",
    "load ms": "load_ms",
    "first call ms": "first_ms",
    "memory MB": "memory_mb",
    "threads": "threads",
}


def main(argv: list[str]) -> None:
    del argv
    for flag, known in ((_MODELS, _NAMES), (_WAYS, ALL_WAYS)):
        if unknown := set(flag.value) - set(known):
            raise app.UsageError(f"--{flag.name}: no {sorted(unknown)}; there are {list(known)}")
    versions = {name: way.version or commit() for name, way in ALL_WAYS.items()}
    path = pathlib.Path(_JSON.value) if _JSON.value else None
    machine = {"cpu": cpu_name(), "threads": _THREADS.value}
    report: dict[str, Any] = json.loads(path.read_text()) if path and path.exists() else {}
    if machine != report.get("machine"):
        report = {"machine": machine, "models": {}}
    with tempfile.TemporaryDirectory() as temporary:
        for model in _MODELS.value:
            folder = pathlib.Path(_FOLDER.value or temporary) / model
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
            row = report["models"].setdefault(model, {})
            left = [
                way
                for way in _WAYS.value
                if not is_same(row.get(way, {}).get("version", ""), versions[way])
            ]
            failed = make(model, ["eager", *left], versions, folder)
            if not _MEASURE.value:
                continue
            for way, found in (measure(model, left, failed, folder) if left else {}).items():
                row[way] = {"version": versions[way], **found}
            if path:
                path.write_text(json.dumps(report, indent=1) + "\n")
    print_tables({model: report["models"].get(model, {}) for model in _MODELS.value})


def make(
    model: str, ways: list[str], versions: dict[str, str], folder: pathlib.Path
) -> dict[str, str]:
    """Writes the files of those that have none of this version. Returns why some have none."""
    folder.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for way in dict.fromkeys(ways):
        made = folder / f"{way}.made"
        if made.exists() and is_same(made.read_text(), versions[way]):
            continue
        logging.info("%s: making %s", model, way)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.cpu_ways", *_job(model, way, folder)]
                + ["make"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                timeout=_MAKE_S,
            )
        except subprocess.TimeoutExpired:
            failed[way] = f"not made in {_MAKE_S} s"
            continue
        if done.returncode:
            (folder / f"{way}.log").write_text(done.stderr)
            failed[way] = "".join(done.stderr.strip().splitlines()[-1:])[:200]
            logging.warning("%s: %s: %s", model, way, failed[way])
        else:
            made.write_text(versions[way])
    return failed


def is_same(version: str, wanted: str) -> bool:
    """Whether results of `version` stand; a checkout with changes is like no other."""
    return version == wanted and not version.endswith("-dirty")


def _job(model: str, way: str, folder: pathlib.Path) -> list[str]:
    return [model, way, str(folder), str(_THREADS.value)]


def measure(
    model: str, ways: list[str], failed: dict[str, str], folder: pathlib.Path
) -> dict[str, dict[str, Any]]:
    """What each way took, or why it has no time."""
    found: dict[str, dict[str, Any]] = {way: {} for way in ways}
    with contextlib.ExitStack() as stack:
        running = {}
        for way in ways:
            logging.info("%s: starting %s", model, way)
            try:
                if way in failed:
                    raise RuntimeError(failed[way])
                contender = stack.enter_context(
                    Contender(
                        way,
                        "tests.benchmarks.cpu_ways",
                        *_job(model, way, folder),
                        threads=_THREADS.value,
                    )
                )
                begun = contender.begun()
                error = max_relative_error(folder / "expected.npz", begun["outputs"])
                file = folder / ALL_WAYS[way].file
                found[way] = {
                    "make_s": made_s(folder, way),
                    "file_mb": file.stat().st_size / 1e6 if file.is_file() else None,
                    "import_ms": begun["import_s"] * 1e3,
                    "load_ms": begun["load_s"] * 1e3,
                    "first_ms": begun["first_call_s"] * 1e3,
                    "error": error,
                }
                if error > ALL_WAYS[way].tolerance:
                    raise RuntimeError(f"wrong: relative error {error:.1e}")
                once = min(contender.calls(2)["seconds"])
                running[way] = contender, max(1, round(_MIN_ROUND_MS.value / 1e3 / once))
            except RuntimeError as problem:  # a way that fails is a cell of the table
                found[way]["failed"] = str(problem)
        times: dict[str, list[float]] = {way: [] for way in running}
        answer = {}
        for _ in range(_ROUNDS.value):
            for way, (contender, count) in running.items():
                answer[way] = contender.calls(count)
                times[way].append(statistics.mean(answer[way]["seconds"]) * 1e3)
        for way, values in times.items():
            found[way] |= {
                "median_ms": statistics.median(values),
                "rounds": len(values),
                "threads": answer[way]["threads"],
                "memory_mb": answer[way]["memory"] / 1e6,
            }
    return found


def max_relative_error(expected: pathlib.Path, found: str) -> float:
    """The largest difference over the largest expected magnitude, of all outputs."""
    with np.load(expected) as right, np.load(found) as ours:
        if set(right) != set(ours) or any(right[n].shape != ours[n].shape for n in right):
            return math.inf
        errors = [np.abs(ours[n] - right[n]).max() / (np.abs(right[n]).max() or 1.0) for n in right]
    worst = float(np.max(errors))
    return worst if math.isfinite(worst) else math.inf


def print_tables(report: dict[str, dict[str, Any]]) -> None:
    """Milliseconds, ours over the best peer's (below 1 is faster); then all else, by way."""
    ours = [way for way in _WAYS.value if not ALL_WAYS[way].package]
    title = f"{cpu_name()}, {_THREADS.value} threads"
    latency = Table(title=f"median ms a call, {title}")
    rest = Table(title=f"all else, {title}")
    latency.add_column("model")
    for way in _WAYS.value:
        latency.add_column(way, justify="right")
    for column in ("model", "way", *_REST):
        rest.add_column(column, justify="left" if column in ("model", "way") else "right")
    for way in ours:
        latency.add_column(f"{way} / best peer", justify="right")
    ratios: dict[str, list[float]] = {way: [] for way in ours}
    for model, row in report.items():
        times = {way: found["median_ms"] for way, found in row.items() if "median_ms" in found}
        peers = [ms for way, ms in times.items() if ALL_WAYS[way].package]
        cells = []
        for way in ours:
            if way in times and peers:
                ratios[way].append(times[way] / min(peers))
            cells.append(f"{ratios[way][-1]:.2f}" if way in times and peers else "-")
        shown = [f"{times[way]:.3g}" if way in times else "-" for way in _WAYS.value]
        latency.add_row(model, *shown, *cells)
        for way in (way for way in _WAYS.value if way in times):
            rest.add_row(model, way, *(_number(row[way].get(key)) for key in _REST.values()))
    means = [f"{statistics.geometric_mean(r):.2f}" if r else "-" for r in ratios.values()]
    latency.add_row("geometric mean", *("" for _ in _WAYS.value), *means)
    for table in (latency, rest):
        Console(width=200).print(table)
    for model, row in report.items():
        for way, found in row.items():
            if "failed" in found:
                print(f"{model}: {way}: {found['failed']}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    path = pathlib.Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str:
    """Of the checkout that `bazel run` was called in, with a mark if it has changes."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=os.environ.get("BUILD_WORKSPACE_DIRECTORY"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    app.run(main)
