"""Concurrent callers of a model on this machine's CPU, and calls after idleness, beside a peer.

    tools/bazel run //tests/benchmarks:cpu_callers -- --json=$HOME/callers.jsonl --folder=$HOME/cpu

Throughput in calls a second, and the 99th percentile of a call in milliseconds, of 1, 2, 8 and 32
threads that call without pause; then the median of a call after 0.1 and 0.5 s without one, over
that of calls without pause. ONNX Runtime has one session for all callers; all its numbers of
threads are tried, and the one with the highest throughput is its row for that number of callers.
Ours has the threads of the default and a method for each caller.

Contenders take turns, as in //tests/benchmarks:cpu, whose files of the same --folder are used.
"""

import contextlib
import functools
import os
import pathlib
import statistics
import tempfile
from typing import Any

from absl import app, flags

from pteron.command.contender import Contender, by_turns, text_table
from tests.benchmarks.cpu_files import job, make, versions_of_packages, versions_of_ways
from tests.benchmarks.cpu_ways import ALL_WAYS, max_relative_error
from tests.benchmarks.results import Row, about, write_rows

_MODELS = flags.DEFINE_list("models", ["mobilenet_v2", "bert_base_128"], "Which models.")
_PEER = flags.DEFINE_string("peer", "onnxruntime", "The way beside ours.")
_CALLERS = flags.DEFINE_list("callers", ["1", "2", "8", "32"], "Numbers of callers.")
_IDLE = flags.DEFINE_list("idle", ["0.1", "0.5"], "Seconds without a call.")
_CORES = flags.DEFINE_integer("threads", len(os.sched_getaffinity(0)), "The most of a call.", 1)
_TURNS = flags.DEFINE_integer("turns", 5, "Turns of each contender.", 1)
_TURN_S = flags.DEFINE_float("turn_s", 2, "Seconds that a turn takes.")
_JSON = flags.DEFINE_string("json", "", "File of JSON lines for the results.")
_FOLDER = flags.DEFINE_string("folder", "", "Where the ways' files are kept.")

_IDLE_CALLS = 4  # of a turn


def main(argv: list[str]) -> None:
    del argv
    origin = about(versions_of_packages(), _CORES.value)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for model in _MODELS.value:
            folder = pathlib.Path(_FOLDER.value or temporary) / model
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
            ways = ["pteron", _PEER.value]
            if failed := make(model, ways, versions_of_ways(), folder, _CORES.value):
                raise RuntimeError(f"{model}: {failed}")
            rows += ({**origin, "model": model, **found} for found in _measure(model, folder))
            write_rows(_JSON.value, rows)
    print(_table(rows))


def _measure(model: str, folder: pathlib.Path) -> list[Row]:
    """Rows of all numbers of callers and of all pauses; the peer's have its best setting."""
    settings = {("pteron", _CORES.value)}
    settings |= {(_PEER.value, threads) for threads in range(1, _CORES.value + 1)}
    rows = []
    with contextlib.ExitStack() as stack:
        contenders: dict[tuple[str, int], Contender] = {}
        call_s = {}
        for way, threads in sorted(settings):
            arguments = job(model, way, folder, threads)
            contender = stack.enter_context(
                Contender(way, "tests.benchmarks.cpu_ways", *arguments, threads=threads)
            )
            error = max_relative_error(folder / "expected.npz", contender.begun()["outputs"])
            if error > ALL_WAYS[way].tolerance:
                raise RuntimeError(f"{model}, {way} is wrong: relative error {error:.1e}")
            contenders[way, threads] = contender
            call_s[way, threads] = min(contender.calls(3)["seconds"])
        for callers in map(int, _CALLERS.value):
            counts = {key: max(1, round(_TURN_S.value / s / callers)) for key, s in call_s.items()}
            found = by_turns(
                {
                    key: functools.partial(contender.calls, counts[key], callers)
                    for key, contender in contenders.items()
                },
                _TURNS.value,
            )
            figures = [_figures(key, answers) for key, answers in found.items()]
            best = {
                way: max(
                    (row for row in figures if row["way"] == way),
                    key=lambda row: row["calls_per_s"],
                )
                for way in ("pteron", _PEER.value)
            }
            rows += [{"callers": callers, **row} for row in best.values()]
        for pause in map(float, _IDLE.value):
            most = {way: contenders[way, _CORES.value] for way in ("pteron", _PEER.value)}
            warm = by_turns({w: functools.partial(c.calls, 10) for w, c in most.items()}, 3)
            idle = by_turns(
                {w: functools.partial(c.calls, _IDLE_CALLS, 1, pause) for w, c in most.items()},
                _TURNS.value,
            )
            rows += [
                {
                    "way": way,
                    "threads": _CORES.value,
                    "idle_s": pause,
                    "warm_ms": 1e3 * _median(warm[way]),
                    "idle_ms": 1e3 * _median(idle[way]),
                }
                for way in most
            ]
    return rows


def _seconds(answers: list[dict[str, Any]]) -> list[float]:
    return sorted(second for answer in answers for second in answer["seconds"])


def _median(answers: list[dict[str, Any]]) -> float:
    return statistics.median(_seconds(answers))


def _figures(key: tuple[str, int], answers: list[dict[str, Any]]) -> Row:
    way, threads = key
    seconds = _seconds(answers)
    return {
        "way": way,
        "threads": threads,
        "calls_per_s": statistics.median(len(a["seconds"]) / a["wall_s"] for a in answers),
        "p99_ms": 1e3 * seconds[min(len(seconds) - 1, 99 * len(seconds) // 100)],
        "calls": len(seconds),
    }


def _table(rows: list[Row]) -> str:
    """Ours beside the peer's, then ours over the peer's: above 1 is more throughput."""
    ours, peer = ([r for r in rows if r["way"] == way] for way in ("pteron", _PEER.value))
    callers: list[list[Any]] = [
        ["model", "callers", "calls/s", _PEER.value, "threads", "ratio", "p99 ms", _PEER.value]
    ]
    idle: list[list[Any]] = [["model", "idle s", "over warm", _PEER.value]]
    for a, b in zip(ours, peer, strict=True):
        if "callers" in a:
            rates, tails = ([r[key] for r in (a, b)] for key in ("calls_per_s", "p99_ms"))
            quotient = rates[0] / rates[1]
            callers.append(
                [a["model"], str(a["callers"]), *rates, str(b["threads"]), quotient, *tails]
            )
        else:
            over = (r["idle_ms"] / r["warm_ms"] for r in (a, b))
            idle.append([a["model"], str(a["idle_s"]), *over])
    return f"{text_table(callers)}\n\n{text_table(idle)}"


if __name__ == "__main__":
    app.run(main)
