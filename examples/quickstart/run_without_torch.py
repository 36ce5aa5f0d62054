"""Loads and runs a program in a process that cannot import torch.

Reads the image from an .npz file and writes the output to another.
"""

import sys
from collections.abc import Callable
from typing import Any

sys.modules["torch"] = None  # type: ignore[assignment]  # any `import torch` raises from here on

import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402

from pteron.command.contender import serve  # noqa: E402
from pteron.runtime import Runtime  # noqa: E402

_PROGRAM = flags.DEFINE_string("program", None, "The .pte file.", required=True)
_INPUTS = flags.DEFINE_string("inputs", None, "An .npz file with the image.", required=True)
_OUTPUTS = flags.DEFINE_string("outputs", None, "The .npz file to write.", required=True)


def main(argv: list[str]) -> None:
    del argv
    with np.load(_INPUTS.value) as archive:
        image = archive["image"]

    def load() -> Callable[[], list[Any]]:
        method = Runtime.get().load_program(_PROGRAM.value).load_method("forward")
        return lambda: method.execute([image])

    def save(outputs: list[Any]) -> dict[str, Any]:
        np.savez(_OUTPUTS.value, output_0=np.asarray(outputs[0]))
        return {}

    serve(load, save)


if __name__ == "__main__":
    app.run(main)
