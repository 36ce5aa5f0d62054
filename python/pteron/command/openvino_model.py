"""OpenVINO, a peer in benchmarks: from an exported program to a file, and from the file to a call.

write(torch.export.export(module, inputs), Path("model.xml"))
call = load(Path("model.xml"), [image], threads=2)
outputs = call()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # who loads the file needs no torch
    import torch


def write(exported: torch.export.ExportedProgram, path: Path) -> None:
    """Converts a program to a file `path` (.xml) and its weights beside it (.bin); dtypes and
    static dimensions stay."""
    import openvino

    model = openvino.convert_model(exported)
    names = exported.graph_signature.user_inputs
    values = [node.meta["val"] for node in exported.graph.nodes if node.name in names]
    sizes = [[size if isinstance(size, int) else -1 for size in value.shape] for value in values]
    model.reshape({i: openvino.PartialShape(size) for i, size in enumerate(sizes)})
    openvino.save_model(model, path, compress_to_fp16=False)


def load(path: Path, inputs: Sequence[Any], threads: int) -> Callable[[], list[Any]]:
    """Compiles a file for one call at a time; arrays are neither copied in nor out.

    Args:
        path: what `write` wrote.
        inputs: NumPy arrays, in order.
        threads: of a call; 0 leaves it to OpenVINO.

    Raises:
        RuntimeError: it would compute float32 in less, as it does by default on some processors.
    """
    import openvino

    options: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    options |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    if (precision := compiled.get_property("INFERENCE_PRECISION_HINT")) != openvino.Type.f32:
        raise RuntimeError(f"OpenVINO computes in {precision}, expected f32")
    request = compiled.create_infer_request()
    given = list(inputs)
    return lambda: list(request.infer(given, share_inputs=True, share_outputs=True).values())
