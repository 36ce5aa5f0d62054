"""Benchmarks a program, optionally against peers on the same inputs.

    pteron bench model.pte --input random
    pteron bench model.pte --model FILE.py:function --against=eager,compile

Each runs in its own process, alternating, with the same number of threads. With --model all use the
function's example inputs, and outputs are compared with ours (exit code 3: they differ). `load` is
importing and loading, `first` the first call. What is done once for a model is in no column:
the models of onnxruntime and openvino are exported with the dynamic shapes of the program, and
onnxruntime's optimized, before.
--profile also shows where the time goes: of the median of five profiled calls.
"""

import contextlib
import dataclasses
import functools
import json
import math
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pteron.command import peers, program_file, values
from pteron.command.contender import by_turns, text_table
from pteron.command.usage import Stages, UsageError, command_flags, nearest, only
from pteron.runtime import MethodMeta, Profile

FLAGS = command_flags()
program_file.define_flags(FLAGS)
values.define_flags(FLAGS)
FLAGS.string("method", None, "Its only one, or forward.")
FLAGS.string("model", None, "FILE.py:function, what it was made from.")
FLAGS.list("against", [], f"Baselines: {', '.join(peers.PEERS)}; they need --model.")
FLAGS.integer(
    "threads",
    None,
    "Of each. By default as many as there are cores; of a program alone, its own choice.",
    1,
)
FLAGS.float("seconds", 3.0, "Of measuring, for each.", 0.0)

FLAGS.boolean("profile", False, "Also where the time of a call goes.")
FLAGS.string("trace", None, "File for --profile, for ui.perfetto.dev.")

FLAGS.string("etdump", None, "File for --profile, for ExecuTorch's Inspector.")

_TURNS = 10
_MOST = 1000  # calls per turn
_BARS = " ▁▂▃▄▅▆▇█"


def run(positional: list[str]) -> bool:
    (name,) = only(positional, "model.pte", flag="--model")
    if unknown := [peer for peer in FLAGS.against if peer not in peers.PEERS]:
        raise UsageError(f"--against: {nearest('peer', unknown[0], peers.PEERS)}")
    if FLAGS.against and FLAGS.model is None:
        raise UsageError("--against needs the model; expected --model FILE.py:function")
    if FLAGS.model and FLAGS.input:
        raise UsageError("--model provides the inputs; expected no --input")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        program = program_file.load(name, FLAGS.data)
        meta = program_file.method_of(program, FLAGS.method).metadata
        job = {"program": name, "data": FLAGS.data, "method": meta.name(), "folder": folder}
        job |= {"model": FLAGS.model, "inputs": FLAGS.input or ["random"]}
        stages = Stages()
        stack.enter_context(stages.shown())
        if FLAGS.model:
            job["inputs"] = [_example_inputs(FLAGS.model, meta, Path(folder))]
        known = program_file.known_inputs(name, program, meta.name(), job["inputs"])
        job["known"] = dataclasses.asdict(known)
        values.inputs_of(meta, job["inputs"], known)  # errors in them are reported here
        threads = FLAGS.threads or (_cores() if FLAGS.against else None)
        report: dict[str, dict[str, Any]] = {}
        contenders = {}
        for kind in FLAGS.against:
            stages(f"prepare {kind}")
            peers.prepare(kind, job, _dynamic(Path(name), meta))
        for kind in ("pteron", *FLAGS.against):  # sequentially, so that none disturbs another
            stages(f"start {kind}")
            contenders[kind] = stack.enter_context(peers.start(kind, job, threads))
            report[kind] = contenders[kind].begun()
        stages("measure")
        ways = {
            kind: functools.partial(c.calls, min(_MOST, c.calls_in(FLAGS.seconds / _TURNS)))
            for kind, c in contenders.items()
        }
        for kind, answers in by_turns(ways, _TURNS).items():
            report[kind] |= _figures(answers)
            if kind != "pteron":
                ours, theirs = (peers.outputs_of(k, job) for k in ("pteron", kind))
                report[kind] |= _difference(ours, theirs)
        profile = None
        if FLAGS.profile or FLAGS.trace or FLAGS.etdump:
            stages("profile")
            profiled = stack.enter_context(peers.start(peers.PROFILE, job, threads))
            profile = Profile(profiled.begun()["trace"])
    if profile and FLAGS.trace:
        profile.save(FLAGS.trace)
    if profile and FLAGS.etdump:
        from pteron.command.etdump import etdump

        etdump(profile, meta.name()).save(FLAGS.etdump)
    shown = threads or f"its own choice of {len(os.sched_getaffinity(0))} cores"
    if FLAGS.json:
        rows = {"profile": profile.rows} if profile else {}
        print(json.dumps({"threads": shown, "contenders": report, **rows}, indent=2))
    else:
        print(_table(report, f"{name}, {meta.name()}; threads: {shown}"))
        if profile:
            print(f"\n{profile}")
    return all(figures.get("same_outputs", True) for figures in report.values())


def _cores() -> int:
    """Physical cores that this process may use."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        file = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(file.read_text() if file.exists() else str(cpu))
    return len(cores)


def _dynamic(path: Path, meta: MethodMeta) -> list[list[int]]:
    """The dynamic dimensions of each input, which the graph in the file says."""
    graph = program_file.tables_of(path)[1].get(meta.name())
    if graph is None:
        if all(getattr(meta.input_meta(i), "is_static", bool)() for i in range(meta.num_inputs())):
            return [[] for _ in range(meta.num_inputs())]
        raise UsageError(
            f"{path} does not say which dimensions are dynamic: it was written without its graph."
            f" try: pteron export again"
        )
    inputs = [node for node in graph if node.op == "input" and node.delegate < 0]
    sizes = [
        re.findall(r"[^][, ]+(?=[],])", node.shapes[0]) if node.shapes else [] for node in inputs
    ]
    return [[d for d, size in enumerate(of) if not size.isdigit()] for of in sizes]


def _difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> dict[str, Any]:
    """How far a peer's outputs are from ours, relative to the largest value of an output."""
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        problem = f"shapes {[b.shape for b in theirs]}, ours {[a.shape for a in ours]}"
        return {"same_outputs": False, "difference": math.inf, "problem": problem}
    worst, is_same = 0.0, True
    for a, b in zip(ours, theirs, strict=True):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        both = (x == y) | (np.isnan(x) & np.isnan(y))  # infinities, too
        finite = np.abs(x[np.isfinite(x)])
        with np.errstate(invalid="ignore"):  # of infinities
            apart = np.where(both, 0.0, np.abs(x - y)) / (finite.max(initial=0.0) or 1.0)
        found = float(np.nan_to_num(apart, nan=math.inf).max(initial=0.0))
        limit = (
            0.0 if a.dtype.kind not in "fc" else 2e-2 if min(a.itemsize, b.itemsize) == 2 else 1e-3
        )
        worst, is_same = max(worst, found), is_same and found <= limit
    return {"same_outputs": is_same, "difference": worst}


def _example_inputs(model: str, meta: MethodMeta, folder: Path) -> str:
    """A file with the example inputs of the model, for a process without torch."""
    import torch
    from safetensors.torch import save_file
    from torch.utils import _pytree as pytree

    from pteron.command import model_file
    from pteron.exporter import example_of

    leaves = pytree.tree_leaves(example_of(model_file.build(model), meta.name())[1:])
    if len(leaves) != meta.num_inputs():
        raise UsageError(
            f"--model: {model} has {len(leaves)} example inputs; the program takes"
            f" {', '.join(values.names_of(meta))}. try: what the program was made from"
        )
    tensors = {f"input_{i}": torch.as_tensor(v).contiguous() for i, v in enumerate(leaves)}
    save_file(tensors, folder / "inputs.safetensors")
    return str(folder / "inputs.safetensors")


def _figures(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Percentiles of call times in seconds, and memory."""
    ordered = sorted(second for answer in answers for second in answer["seconds"])
    figures: dict[str, Any] = {
        f"p{p}_s": ordered[min(len(ordered) - 1, p * len(ordered) // 100)] for p in (10, 50, 90, 99)
    }
    about = {"calls": len(ordered), "memory_bytes": answers[-1]["memory"]}
    return {**figures, **about, "histogram": _bars(ordered)}


def _bars(ordered: list[float], width: int = 24) -> str:
    """The distribution of times between the 1st and 99th percentile."""
    low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
    bins = [0] * width
    for value in ordered:
        if low <= value <= high:
            bins[min(width - 1, int((value - low) / ((high - low) or 1) * width))] += 1
    return "".join(_BARS[-(-count * 8 // max(bins))] for count in bins)


def _table(report: dict[str, dict[str, Any]], title: str) -> str:
    rows: list[list[str]] = [["", "p10", "p50", "p90", "p99", "load", "first", "memory"]]
    ours = report["pteron"]["p50_s"]
    for kind, f in report.items():
        keys = ("p10_s", "p50_s", "p90_s", "p99_s", "load_s", "first_call_s")
        memory = f"{f['memory_bytes'] / 1e6:.0f} MB"
        rows.append([f"{kind:<11}", *(_time(f[key]) for key in keys), memory])
    lines = [title, text_table(rows, least=10), ""]
    for kind, f in report.items():
        ratio = ""
        if kind != "pteron":
            same = "same" if f["same_outputs"] else "OTHER"
            ratio = f", {f['p50_s'] / ours:.2f} x ours; {same} outputs, to {f['difference']:.0e}"
            ratio += f": {f['problem']}" if "problem" in f else ""
        lines.append(
            f"{kind:<12} {f['histogram']}  1st to 99th percentile of {f['calls']} calls{ratio}"
        )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"
