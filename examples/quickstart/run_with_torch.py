"""The quickstart's model in PyTorch, eager or compiled; may write its output to an .npz file."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from absl import app, flags

from examples.quickstart.vision_transformer import VisionTransformer
from pteron.command.contender import serve

_INPUTS = flags.DEFINE_string("inputs", None, "An .npz file with the image.", required=True)
_OUTPUTS = flags.DEFINE_string("outputs", "", "The .npz file to write.")
_COMPILE = flags.DEFINE_boolean("compile", False, "Run the model with torch.compile.")


def main(argv: list[str]) -> None:
    del argv
    torch.set_grad_enabled(False)
    serve(_load, _save)


def _load() -> Callable[[], torch.Tensor]:
    with np.load(_INPUTS.value) as archive:
        image = torch.from_numpy(archive["image"])
    model: Callable[..., Any] = VisionTransformer.seeded()
    if _COMPILE.value:
        # These only save compilations and change no kernel: one source file, ISA detection without
        # test compilations, no precompiled header.
        options: dict[str, str | int | bool | Callable[..., Any]]
        options = {"cpp_wrapper": True, "cpp.vec_isa_ok": True}
        options["cpp_cache_precompile_headers"] = False
        model = torch.compile(model, options=options)
    return lambda: model(image)


def _save(output: torch.Tensor) -> dict[str, Any]:
    if _OUTPUTS.value:
        np.savez(_OUTPUTS.value, output_0=output.numpy())
    return {}


if __name__ == "__main__":
    app.run(main)
