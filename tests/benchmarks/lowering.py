"""Seconds to make a program: for the first time, again, and with other weights, beside its peers.

  tools/bazel run //tests/benchmarks:lowering -- --models=linear,resnet18 --turns=3
  tools/bazel run //tests/benchmarks:lowering -- --models=layers_12,layers_24,layers_48,layers_96

`layers_N` are N equal blocks: the time of a node shows whether lowering is linear. Each way has
fresh processes, in turns with the others. CPU seconds are those of the process and its compilers,
in brackets wall seconds, both from when torch is imported and the module is there; the least of all
turns counts. A cold one has an empty cache; what follows it, "again" and "other weights", has what
it left. A program that is not made of the same bytes again is an error.
"""

import functools
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from absl import app, flags

from pteron.command.contender import text_table
from tests.benchmarks.results import commit, cpu_name
from tests.models.full_size import FULL_SIZE, Output, logits
from tests.models.networks import AttentionBlock
from tests.models.sample import Sample, randint, randn

_MODELS = flags.DEFINE_list("models", ["linear", "resnet18", "distilbert"], "Names of models.")
_WAYS = flags.DEFINE_list(
    "ways", ["cold", "again", "other weights", "torch.onnx.export", "torch.export"], "Which ways."
)
_TURNS = flags.DEFINE_integer("turns", 1, "Turns of all ways.", 1)
_ONE = flags.DEFINE_string("one", "", "A way that this process is to measure.")
_FOLDER = flags.DEFINE_string("folder", "", "Where that one has its files.")

_RESNET18 = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
_SMALL = (
    Sample("linear", lambda: torch.nn.Linear(16, 4), lambda seed: (randn(seed, 2, 16),)),
    Sample(
        "resnet18",
        lambda: logits("ResNet", **_RESNET18),
        lambda seed: (randn(seed, 1, 3, 224, 224),),
    ),
    Sample(
        "distilbert",
        lambda: Output("last_hidden_state", lambda t: t.DistilBertModel(t.DistilBertConfig())),
        lambda seed: (randint(seed, 30000, 1, 128),),
    ),
)


def sample_of(name: str) -> Sample:
    """The model of that name."""
    if name.startswith("layers_"):
        blocks = functools.partial(range, int(name.removeprefix("layers_")))
        return Sample(
            name,
            lambda: torch.nn.Sequential(*(AttentionBlock(128, 4, 512) for _ in blocks())),
            lambda seed: (randn(seed, 1, 32, 128),),
        )
    return {sample.name: sample for sample in (*_SMALL, *FULL_SIZE.values())}[name]


def _seconds() -> tuple[float, float]:
    """CPU seconds of this process and those that it has waited for, and the time."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(x.ru_utime + x.ru_stime for x in used), time.perf_counter()


def _measure_one(name: str, way: str, folder: pathlib.Path) -> dict[str, Any]:
    """CPU and wall seconds of one way in this process, and the digest of a program."""
    sample = sample_of(name)
    module, inputs, program = sample.module(), sample.inputs(0), folder / f"{name}.pte"
    if way == "other weights":
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.01)
    before = _seconds()
    if way == "torch.export":
        torch.export.export(module, inputs)
    elif way == "torch.onnx.export":
        torch.onnx.export(module, inputs, folder / "model.onnx", dynamo=True, verbose=False)
    else:
        import pteron

        pteron.export(module, inputs, program)
    found = [after - start for after, start in zip(_seconds(), before, strict=True)]
    is_kept = way in ("cold", "again")
    return {
        "s": found,
        "digest": hashlib.sha256(program.read_bytes()).hexdigest() if is_kept else "",
    }


def _in_a_process(name: str, way: str, folder: pathlib.Path) -> dict[str, Any]:
    """The same, in a process of its own."""
    cache = folder / "cache"
    if way == "cold":
        shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, __file__, f"--models={name}", f"--one={way}", f"--folder={folder}"],
        env=os.environ
        | {
            "PTERON_CACHE_DIR": str(cache),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            # Threads that wait for each other count otherwise.
            "OMP_WAIT_POLICY": "passive",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(argv: list[str]) -> None:
    del argv
    if _ONE.value:
        (name,) = _MODELS.value
        print(json.dumps(_measure_one(name, _ONE.value, pathlib.Path(_FOLDER.value))))
        return
    print(f"{cpu_name()}, commit {commit()}, torch {torch.__version__}", flush=True)
    rows: list[list[str | float | None]] = [["CPU s (wall s)", "nodes", "ms a node", *_WAYS.value]]
    for name in _MODELS.value:
        sample = sample_of(name)
        nodes = len(sample.export().run_decompositions().graph.nodes)
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                way: functools.partial(_in_a_process, name, way, folder) for way in _WAYS.value
            }
            # A cold one comes first.
            results = [{way: run() for way, run in ways.items()} for _ in range(_TURNS.value)]
        digests = {found["digest"] for turn in results for found in turn.values()} - {""}
        if len(digests) > 1:
            raise RuntimeError(f"{name}: found {len(digests)} different programs, expected one")
        least = {way: min(turn[way]["s"] for turn in results) for way in ways}
        first = next(iter(least.values()))[0]
        cells = [f"{cpu:.1f} ({wall:.1f})" for cpu, wall in least.values()]
        rows.append([name, str(nodes), f"{1000 * first / nodes:.0f}", *cells])
        print(text_table(rows), f"\nload {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    app.run(main)
