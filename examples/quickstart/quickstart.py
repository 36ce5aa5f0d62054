"""Lowers a vision transformer to one file, runs it without torch and compares.

  tools/bazel run //examples/quickstart

Prints the largest error against eager, latency against eager and torch.compile, the size of the
file and how long loading and lowering took.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from absl import app, flags
from rich.console import Console
from rich.table import Table

from backends.cpu import CpuOptions, CpuPartitioner
from examples.quickstart.vision_transformer import VisionTransformer
from exir import to_edge_transform_and_lower

_BATCH = flags.DEFINE_integer("batch", 2, "Images to run; the program takes 1 to 8.")
_ISA = flags.DEFINE_string("isa", "native", "x86-64-v3, x86-64-v4, or the best of this machine.")
_SAVE = flags.DEFINE_string("save", "", "Where to keep the .pte file; by default it is deleted.")
_REPEAT = flags.DEFINE_integer("repeat", 15, "Timed runs of each contender.")


def main(argv: list[str]) -> None:
    del argv
    torch.manual_seed(0)
    model = VisionTransformer().eval()
    image = torch.randn(_BATCH.value, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        program = pathlib.Path(_SAVE.value or pathlib.Path(folder) / "vision_transformer.pte")
        start = time.perf_counter()
        lower(model, image, program)
        lower_s = time.perf_counter() - start
        ours = run_without_torch(program, image, pathlib.Path(folder))
        expected = model(image)
        eager_ms = 1e3 * median_seconds(lambda: model(image))
        compiled = torch.compile(model)
        compiled(image)
        compile_ms = 1e3 * median_seconds(lambda: compiled(image))
        size_mb = program.stat().st_size / 1e6
    error = (torch.from_numpy(ours["output_0"]) - expected).abs().max() / expected.abs().max()
    ours_ms = 1e3 * statistics.median(ours["seconds"])

    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    table = Table(title=f"VisionTransformer, {parameters:.0f} M parameters, batch {_BATCH.value}")
    table.add_column("what")
    table.add_column("value", justify="right")
    for what, value in [
        ("largest error against eager, relative", f"{error:.1e}"),
        ("latency, this program without torch", f"{ours_ms:.1f} ms"),
        ("latency, eager", f"{eager_ms:.1f} ms ({eager_ms / ours_ms:.2f} x ours)"),
        ("latency, torch.compile", f"{compile_ms:.1f} ms ({compile_ms / ours_ms:.2f} x ours)"),
        ("program file", f"{size_mb:.1f} MB"),
        ("load", f"{1e3 * float(ours['load_s']):.1f} ms"),
        ("lowering, export included", f"{lower_s:.1f} s"),
        ("instruction set asked for", _ISA.value),
    ]:
        table.add_row(what, value)
    Console().print(table)
    if error > 1e-4:
        sys.exit(f"The program differs from eager by {error:.1e}; expected at most 1e-4.")


def lower(model: torch.nn.Module, image: torch.Tensor, path: pathlib.Path) -> None:
    """Exports `model` with a dynamic batch and writes it as one program file."""
    batch = torch.export.Dim("batch", min=1, max=8)
    exported = torch.export.export(model, (image,), dynamic_shapes=({0: batch},))
    partitioner = CpuPartitioner(CpuOptions(isa=_ISA.value))
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    program.save(str(path))


def run_without_torch(
    program: pathlib.Path, image: torch.Tensor, folder: pathlib.Path
) -> dict[str, np.ndarray]:
    """Runs the program in a fresh process; its outputs and timings by name."""
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(inputs, image.numpy())
    script = pathlib.Path(__file__).with_name("run_without_torch.py")
    command = [sys.executable, str(script), f"--program={program}", f"--inputs={inputs}"]
    command += [f"--outputs={outputs}", f"--repeat={_REPEAT.value}"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    with np.load(outputs) as archive:
        return dict(archive)


def median_seconds(call: Callable[[], object]) -> float:
    """The median wall time of `call` after one run to warm up."""
    call()
    seconds = []
    for _ in range(_REPEAT.value):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    app.run(main)
