"""Lowers a vision transformer to one file, runs it without torch and compares.

  tools/bazel run //examples/quickstart

Prints the largest error against eager, latency against eager and torch.compile (medians of
alternating runs), file size, and load and lowering times. torch.compile runs in a separate process
in parallel with lowering.
"""

import contextlib
import pathlib
import sys
import tempfile
import time

import numpy as np
import torch
from absl import app, flags
from rich.console import Console
from rich.table import Table

from examples.quickstart.vision_transformer import VisionTransformer
from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.command.contender import Contender
from pteron.exir import to_edge_transform_and_lower

_BATCH = flags.DEFINE_integer("batch", 2, "Images to run; the program takes 1 to 8.")
_ISA = flags.DEFINE_string("isa", "native", "x86-64-v3, x86-64-v4, or the best of this machine.")
_SAVE = flags.DEFINE_string("save", "", "Where to keep the .pte file; by default it is deleted.")
_REPEAT = flags.DEFINE_integer("repeat", 11, "Timed runs of each, alternating.")


def main(argv: list[str]) -> None:
    del argv
    model = VisionTransformer.seeded()
    image = torch.randn(_BATCH.value, 3, 224, 224)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = pathlib.Path(_SAVE.value or folder / "vision_transformer.pte")
        inputs, eager_npz, ours_npz = (folder / f"{name}.npz" for name in ("in", "eager", "ours"))
        np.savez(inputs, image=image.numpy())

        def start(name: str, program: str, *arguments: str) -> Contender:
            module = f"examples.quickstart.{program}"
            return stack.enter_context(Contender(name, module, f"--inputs={inputs}", *arguments))

        compiled = start("torch.compile", "run_with_torch", "--compile")
        start_s = time.perf_counter()
        lower(model, image, program)
        lower_s = time.perf_counter() - start_s
        compiled.begun()
        eager = start("eager", "run_with_torch", f"--outputs={eager_npz}")
        ours = start("ours", "run_without_torch", f"--program={program}", f"--outputs={ours_npz}")
        load_s = ours.begun()["load_s"]
        eager.begun()
        rounds = [
            [contender.calls(1)["seconds"][0] for contender in (ours, eager, compiled)]
            for _ in range(_REPEAT.value)
        ]
        ours_ms, eager_ms, compile_ms = 1e3 * np.median(rounds, axis=0)
        found, expected = (np.load(path)["output_0"] for path in (ours_npz, eager_npz))
        size_mb = program.stat().st_size / 1e6
    error = np.abs(found - expected).max() / np.abs(expected).max()

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
        ("load", f"{1e3 * load_s:.1f} ms"),
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


if __name__ == "__main__":
    app.run(main)
