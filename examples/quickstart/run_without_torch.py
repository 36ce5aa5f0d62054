"""Loads and runs a program in a process that cannot import torch.

Reads the image from an .npz file and writes the output and the time to load to another.
"""

import sys
import time

sys.modules["torch"] = None  # type: ignore[assignment]  # any `import torch` raises from here on

import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402

from examples.quickstart.contender import serve  # noqa: E402
from pteron.runtime import Runtime  # noqa: E402

_PROGRAM = flags.DEFINE_string("program", None, "The .pte file.", required=True)
_INPUTS = flags.DEFINE_string("inputs", None, "An .npz file with the image.", required=True)
_OUTPUTS = flags.DEFINE_string("outputs", None, "The .npz file to write.", required=True)


def main(argv: list[str]) -> None:
    del argv
    with np.load(_INPUTS.value) as archive:
        image = archive["image"]
    start = time.perf_counter()
    method = Runtime.get().load_program(_PROGRAM.value).load_method("forward")
    load_s = time.perf_counter() - start
    outputs = method.execute([image])
    np.savez(_OUTPUTS.value, load_s=load_s, output_0=np.asarray(outputs[0]))
    serve({"execute": lambda: method.execute([image])})


if __name__ == "__main__":
    app.run(main)
