"""Latency of models on this machine's CPU, beside its peers; files, memory and load time, too.

  tools/bazel run //tests/benchmarks:cpu -- --json=$HOME/cpu.json --folder=$HOME/cpu

  tools/bazel run //tests/benchmarks:cpu -- --models=llama_160m_step \
      "--ways=xnnpack int8,onnxruntime int8,pteron,pteron int8"

The models are those of six libraries at full size, with random weights, and seven small ones of our
own; float32. Everyone has two ways: with what comes by default, and as well as its options
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

The JSON file has a line for each model and way, which says of what commit it is, on what machine,
with how many threads, when, and with what versions of torch and all peers. What it has of this
machine is not measured again: peers' results of the same version, and ours if no commit since has
changed what is compiled. The folder keeps the files in the same way. Making files needs no quiet
machine (--nomeasure), so the README's table is from

  tools/bazel run //tests/benchmarks:cpu -- --models=libraries --folder=$HOME/cpu --nomeasure
  tools/bazel run //tests/benchmarks:cpu -- --models=libraries --folder=$HOME/cpu \\
      --ways=xnnpack,onnxruntime,openvino,pteron --rounds=7 --min_round_ms=150 \\
      --json=$PWD/tests/benchmarks/cpu.jsonl
  tools/bazel run //tests/benchmarks:cpu_pages
"""

import contextlib
import functools
import os
import pathlib
import statistics
import tempfile
from typing import Any

from absl import app, flags, logging

from pteron.command.contender import Contender, by_turns, text_table
from tests.benchmarks.cpu_files import (
    is_same,
    job,
    make,
    versions_of_packages,
    versions_of_ways,
    without_paths,
)
from tests.benchmarks.cpu_pages import geometric_mean, ratio, times
from tests.benchmarks.cpu_ways import ALL_WAYS, WAYS, made_s, max_relative_error
from tests.benchmarks.results import Row, about, read_rows, write_rows
from tests.models.full_size import FULL_SIZE
from tests.models.networks import NETWORKS

_NAMES = [*FULL_SIZE, *(sample.name for sample in NETWORKS)]
_MODELS = flags.DEFINE_list("models", _NAMES, "Which models; `libraries` are all of others.")
_WAYS = flags.DEFINE_list("ways", list(WAYS), "Which ways; eager is always made, to compare with.")
_ROUNDS = flags.DEFINE_integer("rounds", 30, "Rounds through all ways.", 1)
_MIN_ROUND_MS = flags.DEFINE_float("min_round_ms", 250, "Calls of a turn take at least so long.")
_THREADS = flags.DEFINE_integer("threads", len(os.sched_getaffinity(0)), "Of each way.", 1)
_JSON = flags.DEFINE_string("json", "", "Where results are, and are written to.")
_FOLDER = flags.DEFINE_string("folder", "", "Where the ways' files are kept.")
_MEASURE = flags.DEFINE_boolean("measure", True, "Without, only the files are made.")

_REST = {
    "make core s": "make_s",
    "file MB": "file_mb",
    "import ms": "import_ms",
    "load ms": "load_ms",
    "first call ms": "first_ms",
    "memory MB": "memory_mb",
    "threads": "worked",
}


def main(argv: list[str]) -> None:
    del argv
    models = [
        name for model in _MODELS.value for name in (FULL_SIZE if model == "libraries" else [model])
    ]
    for flag, found, known in (
        ("models", models, _NAMES),
        ("ways", _WAYS.value, list(ALL_WAYS)),
    ):
        if unknown := set(found) - set(known):
            raise app.UsageError(f"--{flag}: no {sorted(unknown)}; there are {known}")
    versions = versions_of_ways()
    origin = about(versions_of_packages(), _THREADS.value)
    machine = {key: origin[key] for key in ("cpu", "isa", "cores", "threads")}
    rows = {
        (row["model"], row["way"]): row
        for row in read_rows(_JSON.value)
        if all(row[key] == value for key, value in machine.items())
    }
    with tempfile.TemporaryDirectory() as temporary:
        for model in models:
            folder = pathlib.Path(_FOLDER.value or temporary) / model
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
            left = [
                way
                for way in _WAYS.value
                if not is_same(rows.get((model, way), {}).get("version", ""), versions[way])
            ]
            failed = make(model, left, versions, folder, _THREADS.value)
            if not _MEASURE.value:
                continue
            for way, found in (measure(model, left, failed, folder) if left else {}).items():
                origin |= {"model": model, "way": way, "version": versions[way]}
                rows[model, way] = origin | found
            write_rows(_JSON.value, rows.values())
    print_tables(
        [rows[key] for model in models for way in _WAYS.value if (key := (model, way)) in rows]
    )


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
                        *job(model, way, folder, _THREADS.value),
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
                count = contender.calls_in(_MIN_ROUND_MS.value / 1e3)
                running[way] = functools.partial(contender.calls, count)
            except RuntimeError as problem:  # a way that fails is a cell of the table
                found[way]["failed"] = without_paths(str(problem))
        for way, answers in by_turns(running, _ROUNDS.value).items():
            means = [statistics.mean(answer["seconds"]) for answer in answers]
            found[way] |= {
                "median_ms": statistics.median(means) * 1e3,
                "rounds": len(means),
                "worked": answers[-1]["threads"],
                "memory_mb": answers[-1]["memory"] / 1e6,
            }
    return found


def print_tables(rows: list[Row]) -> None:
    """Milliseconds, ours over the best peer's (below 1 is faster); then all else, by way."""
    ours = [way for way in _WAYS.value if not ALL_WAYS[way].package]
    title = f"{rows[0]['cpu']}, {rows[0]['threads']} threads" if rows else ""
    latency: list[list[Any]] = [["model", *_WAYS.value, *(f"{way} / best peer" for way in ours)]]
    rest: list[list[Any]] = [["model", "way", *_REST]]
    found = times(rows)
    for model, of in found.items():
        ratios = [ratio(of, way) for way in ours]
        latency.append([model, *map(of.get, _WAYS.value), *ratios])
    means = [geometric_mean(found, way) for way in ours]
    latency.append(["geometric mean", *("" for _ in _WAYS.value), *means])
    rest += [
        [row["model"], row["way"], *map(row.get, _REST.values())]
        for row in rows
        if "median_ms" in row
    ]
    print(f"median ms a call, {title}\n{text_table(latency)}")
    print(f"\nall else, {title}\n{text_table(rest, left=2)}")
    for row in rows:
        if "failed" in row:
            print(f"{row['model']}: {row['way']}: {row['failed']}")


if __name__ == "__main__":
    app.run(main)
