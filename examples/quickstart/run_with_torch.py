"""The quickstart's model in PyTorch, eager and compiled; writes eager's output to an .npz file."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from absl import app, flags

from examples.quickstart.contender import serve
from examples.quickstart.vision_transformer import VisionTransformer

_INPUTS = flags.DEFINE_string("inputs", None, "An .npz file with the image.", required=True)
_OUTPUTS = flags.DEFINE_string("outputs", None, "The .npz file to write.", required=True)


def main(argv: list[str]) -> None:
    del argv
    with np.load(_INPUTS.value) as archive:
        image = torch.from_numpy(archive["image"])
    model = VisionTransformer.seeded()
    # All spare compilations and change no kernel: one source file holds them, the processor itself
    # says what it has, and one file gains nothing from a precompiled header.
    options: dict[str, str | int | bool | Callable[..., Any]]
    options = {"cpp_wrapper": True, "cpp.vec_isa_ok": True, "cpp_cache_precompile_headers": False}
    compiled = torch.compile(model, options=options)
    with torch.no_grad():
        compiled(image)
        np.savez(_OUTPUTS.value, output_0=model(image).numpy())
        serve({"eager": lambda: model(image), "torch.compile": lambda: compiled(image)})


if __name__ == "__main__":
    app.run(main)
