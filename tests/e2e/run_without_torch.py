"""Runs a program on inputs_{seed}.npz beside it where torch cannot be imported.

Writes outputs_{seed}.npz. Fails if anything tried to import torch.
"""

from __future__ import annotations

import sys

sys.modules["torch"] = None  # type: ignore[assignment]  # any `import torch` raises from here on

import pathlib  # noqa: E402

import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402

from pteron.runtime import Runtime  # noqa: E402

_PROGRAM = flags.DEFINE_string("program", None, "The .pte file.", required=True)
_CALLS = flags.DEFINE_integer("calls", 1, "How many inputs files there are.")


def main(argv: list[str]) -> None:
    del argv
    program = pathlib.Path(_PROGRAM.value)
    method = Runtime.get().load_program(program).load_method("forward")
    for seed in range(_CALLS.value):
        with np.load(program.parent / f"inputs_{seed}.npz") as archive:
            # A 0-d array stands for the python scalar it was made from.
            arrays = [archive[name] for name in archive.files]
        values = [a if a.ndim else a.item() for a in arrays]
        outputs = method.execute(values)
        np.savez(program.parent / f"outputs_{seed}.npz", *(np.asarray(value) for value in outputs))


if __name__ == "__main__":
    app.run(main)
