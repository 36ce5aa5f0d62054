"""Loads and runs a program in a process that cannot import torch.

Run by the quickstart: reads inputs from an .npz file and writes outputs and timings to another.
"""

from __future__ import annotations

import sys
import time

sys.modules["torch"] = None  # type: ignore[assignment]  # any `import torch` raises from here on

import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402

from runtime import Runtime  # noqa: E402

_PROGRAM = flags.DEFINE_string("program", None, "The .pte file.", required=True)
_INPUTS = flags.DEFINE_string("inputs", None, "An .npz file with arrays in order.", required=True)
_OUTPUTS = flags.DEFINE_string("outputs", None, "The .npz file to write.", required=True)
_REPEAT = flags.DEFINE_integer("repeat", 15, "Timed runs, after one to warm up.")


def main(argv: list[str]) -> None:
    del argv
    with np.load(_INPUTS.value) as archive:
        inputs = [archive[name] for name in archive.files]
    start = time.perf_counter()
    method = Runtime.get().load_program(_PROGRAM.value).load_method("forward")
    load_s = time.perf_counter() - start
    outputs = method.execute(inputs)
    seconds = []
    for _ in range(_REPEAT.value):
        start = time.perf_counter()
        method.execute(inputs)
        seconds.append(time.perf_counter() - start)
    named = {f"output_{i}": np.asarray(output) for i, output in enumerate(outputs)}
    np.savez(_OUTPUTS.value, load_s=load_s, seconds=seconds, **named)


if __name__ == "__main__":
    app.run(main)
