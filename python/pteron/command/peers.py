"""Contenders of `pteron bench`: our program and its peers, each in its own process.

All read the same inputs and write the outputs of their first call. No contender pays, in time or
memory, for what is done once for a model (`prepare`) or needed by this command only.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy

import pteron.command.usage  # noqa: F401 # imported before the clock starts
from pteron.command import openvino_model
from pteron.command.contender import Contender, serve

if TYPE_CHECKING:  # a peer's process does not load the runtime
    from torch.export import ExportedProgram

    from pteron.command.program_file import Known
    from pteron.runtime import Profile


def start(kind: str, job: dict[str, Any], threads: int | None) -> Contender:
    """The process of one contender; `job` selects what it runs."""
    return Contender(kind, __name__, kind, json.dumps(job), threads=threads)


def prepare(kind: str, job: dict[str, Any], dynamic: Sequence[Sequence[int]]) -> None:
    """Writes what the contender loads to the job's folder.

    Args:
      kind: of the contender.
      job: as for `start`.
      dynamic: of each input the dimensions that the program takes in several sizes.
    """
    if kind in _PREPARE:
        _PREPARE[kind](job, dynamic)


def outputs_of(kind: str, job: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The tensors that the first call of a contender returned."""
    with np.load(_outputs_file(kind, job)) as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def _outputs_file(kind: str, job: dict[str, Any]) -> Path:
    return Path(job["folder"]) / f"{kind}_outputs.npz"


def _known(job: dict[str, Any]) -> Known:
    from pteron.command import program_file

    return program_file.Known(**job.get("known", {}))


def _pteron(job: dict[str, Any]) -> Callable[[], object]:
    from pteron.command import program_file, values

    program = program_file.load(job["program"], job["data"])
    method = program_file.method_of(program, job["method"])
    inputs = values.inputs_of(method.metadata, job["inputs"], _known(job))
    return lambda: method.execute(inputs)


def _profiled(job: dict[str, Any]) -> Callable[[], Profile]:
    """A call that is the median of a few profiled ones."""
    from pteron.command import program_file, values

    program = program_file.load(job["program"], job["data"])
    method = program_file.method_of(program, job["method"])
    inputs = values.inputs_of(method.metadata, job["inputs"], _known(job))

    def call() -> Profile:
        for _ in range(3):
            method.execute(inputs)
        profiles = sorted((method.profile_flat(inputs) for _ in range(5)), key=lambda p: p.total_us)
        return profiles[2]

    return call


def _eager(job: dict[str, Any], is_compiled: bool = False) -> Callable[[], object]:
    import torch
    from torch.utils import _pytree as pytree

    from pteron.command import model_file
    from pteron.exporter import example_of

    module, args, kwargs = example_of(model_file.build(job["model"]), job["method"])
    torch.set_grad_enabled(False)
    call: Callable[..., Any] = torch.compile(module) if is_compiled else module
    return lambda: pytree.tree_leaves(call(*args, **kwargs))


def _exported(job: dict[str, Any], dynamic: Sequence[Sequence[int]]) -> ExportedProgram:
    """The model's program with the dynamic dimensions of ours."""
    import torch
    from torch.utils import _pytree as pytree

    from pteron.command import model_file
    from pteron.exporter import example_of, export_methods

    built = model_file.build(job["model"])
    entry = built[job["method"]] if isinstance(built, Mapping) else built
    target, *given = entry if isinstance(entry, tuple) else (entry,)
    if isinstance(target, torch.export.ExportedProgram):
        return target
    forward, args, kwargs = example_of(built, job["method"])
    _, tree = pytree.tree_flatten((args, kwargs))
    dims = [{d: torch.export.Dim.AUTO for d in dims} or None for dims in dynamic]
    args_dims, kwargs_dims = pytree.tree_unflatten(dims, tree)
    function = forward.forward if isinstance(forward, torch.nn.Module) else forward
    shapes = inspect.signature(function).bind(*args_dims, **kwargs_dims).arguments
    programs, _ = export_methods({job["method"]: (target, *given[:1], shapes)}, run=False)
    return programs[job["method"]]


def _prepare_onnxruntime(job: dict[str, Any], dynamic: Sequence[Sequence[int]]) -> None:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 # which torch needs for it
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"onnxruntime: {error}\ntry:  pip install onnx onnxruntime onnxscript"
        ) from error
    import torch

    target = _exported(job, dynamic)
    # It warns of torchvision.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    folder = Path(job["folder"])
    # Optimized once: as much as onnxruntime can for this machine, as its own pages advise.
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns that the result is for this machine
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    name = "session.optimized_model_external_initializers_file_name"
    options.add_session_config_entry(name, "optimized.bin")
    try:
        exported = torch.onnx.export(target, dynamo=True, verbose=False)
        assert exported is not None
        exported.save(folder / "model.onnx")
        onnxruntime.InferenceSession(folder / "model.onnx", options, providers=_PROVIDERS)
    except Exception as error:  # each has classes of its own
        raise _cannot_run("onnxruntime", error) from error


def _prepare_openvino(job: dict[str, Any], dynamic: Sequence[Sequence[int]]) -> None:
    try:
        import openvino  # noqa: F401
    except ModuleNotFoundError as error:
        raise RuntimeError(f"openvino: {error}\ntry:  pip install openvino") from error
    exported = _exported(job, dynamic)
    try:
        openvino_model.write(exported, Path(job["folder"]) / "model.xml")
    except Exception as error:  # it has classes of its own
        raise _cannot_run("openvino", error) from error


_PREPARE = {"onnxruntime": _prepare_onnxruntime, "openvino": _prepare_openvino}


def _cannot_run(peer: str, error: Exception) -> RuntimeError:
    others = ",".join(kind for kind in PEERS if kind not in _PREPARE)
    return RuntimeError(
        f"{peer} cannot run the model: {type(error).__name__}:"
        f" {str(error).partition(chr(10))[0]}\ntry:  --against={others}"
    )


def _arrays(job: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    tensors = safetensors.numpy.load_file(job["inputs"][0])
    return [tensors[f"input_{i}"] for i in range(len(tensors))]


def _openvino(job: dict[str, Any]) -> Callable[[], object]:
    threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    return openvino_model.load(Path(job["folder"]) / "model.xml", _arrays(job), threads)


_PROVIDERS = ["CPUExecutionProvider"]


def _onnxruntime(job: dict[str, Any]) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    options.add_session_config_entry("session.set_denormal_as_zero", "1")  # as ours
    path = Path(job["folder"]) / "optimized.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=_PROVIDERS)
    arrays = _arrays(job)
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(arrays):
        sys.exit(f"its model has the inputs {names}, ours {len(arrays)}")
    inputs = dict(zip(names, arrays, strict=True))
    return lambda: session.run(None, inputs)


_KINDS: dict[str, Callable[[dict[str, Any]], Callable[[], object]]] = {
    "pteron": _pteron,
    "eager": _eager,
    "compile": functools.partial(_eager, is_compiled=True),
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
PEERS = tuple(_KINDS)[1:]
#: The program again, whose `begun()` has a profile as `trace`.
PROFILE = "profile"


def _save(kind: str, job: dict[str, Any], outputs: Any) -> dict[str, Any]:
    """Writes the tensors among the outputs of a contender."""
    arrays = []
    for value in outputs:
        dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if dtype == "bfloat16" and hasattr(value, "tobytes"):  # NumPy has none
            halves = np.frombuffer(value.tobytes(), np.uint16).reshape(value.shape)
            arrays.append((halves.astype(np.uint32) << 16).view(np.float32))
        elif dtype == "bfloat16":
            arrays.append(value.float().numpy())
        elif dtype:
            arrays.append(np.asarray(value))
    np.savez(_outputs_file(kind, job), *arrays)
    return {}


if __name__ == "__main__":
    kind, job = sys.argv[1], json.loads(sys.argv[2])
    if kind == PROFILE:
        serve(lambda: _profiled(job), lambda profile: {"trace": profile.trace})
    else:
        serve(lambda: _KINDS[kind](job), functools.partial(_save, kind, job))
