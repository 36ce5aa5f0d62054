"""Contenders of `pteron bench`: our program and its peers, each in its own process."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pteron.command.contender import Contender, serve
from pteron.runtime import Profile


def start(kind: str, job: dict[str, Any], threads: int | None) -> Contender:
    """The process of one contender; `job` selects what it runs."""
    return Contender(kind, __name__, kind, json.dumps(job), threads=threads)


def _pteron(job: dict[str, Any]) -> Callable[[], object]:
    from pteron.command import program_file, values

    program = program_file.load(job["program"], job["data"])
    method = program_file.method_of(program, job["method"])
    inputs = values.inputs_of(method.metadata, job["inputs"])
    return lambda: method.execute(inputs)


def _profiled(job: dict[str, Any]) -> Callable[[], Profile]:
    """A call that is the median of a few profiled ones."""
    from pteron.command import program_file, values

    program = program_file.load(job["program"], job["data"])
    method = program_file.method_of(program, job["method"])
    inputs = values.inputs_of(method.metadata, job["inputs"])

    def call() -> Profile:
        for _ in range(3):
            method.execute(inputs)
        profiles = sorted((method.profile_flat(inputs) for _ in range(5)), key=lambda p: p.total_us)
        return profiles[2]

    return call


def _eager(job: dict[str, Any], is_compiled: bool = False) -> Callable[[], object]:
    import torch

    module, args, kwargs = _module(job)
    torch.set_grad_enabled(False)
    call: Callable[..., Any] = torch.compile(module) if is_compiled else module
    return lambda: call(*args, **kwargs)


def _onnxruntime(job: dict[str, Any]) -> Callable[[], object]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 # which torch needs for it
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install onnx onnxruntime onnxscript")
    import torch
    from torch.utils import _pytree as pytree

    module, args, kwargs = _module(job)
    path = Path(job["folder"]) / "model.onnx"
    exported = torch.onnx.export(module, args, kwargs=kwargs, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    flat = [leaf.numpy() for leaf in pytree.tree_leaves((args, kwargs))]
    inputs = {about.name: value for about, value in zip(session.get_inputs(), flat, strict=True)}
    return lambda: session.run(None, inputs)


_KINDS: dict[str, Callable[[dict[str, Any]], Callable[[], object]]] = {
    "pteron": _pteron,
    "eager": _eager,
    "compile": functools.partial(_eager, is_compiled=True),
    "onnxruntime": _onnxruntime,
}
PEERS = tuple(_KINDS)[1:]
#: The program again, whose `begun()` has a profile as `trace`.
PROFILE = "profile"


def _module(job: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The module in eval mode, with its example inputs."""
    from pteron.command import model_file
    from pteron.exporter import example_of

    return example_of(model_file.build(job["model"]), job["method"])


if __name__ == "__main__":
    job = json.loads(sys.argv[2])
    if sys.argv[1] == PROFILE:
        serve(lambda: _profiled(job), lambda profile: {"trace": profile.trace})
    else:
        serve(lambda: _KINDS[sys.argv[1]](job))
