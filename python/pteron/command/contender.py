"""One of those that `pteron bench` measures, in a process of its own.

The first line that it prints is JSON: what loading and the first call took. Then, for each number N
on its standard input, it calls N times and prints the seconds of each call and its memory so far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Threads of who ran before spin for a while; in this pause they go to sleep.
_PAUSE_S = 0.05


class Contender:
    """The process, as who measures sees it; it ends with the `with`."""

    def __init__(self, kind: str, job: dict[str, Any], threads: int | None) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        self.kind = kind
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, kind, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.communicate()

    def begun(self) -> dict[str, Any]:
        """What loading and the first call took."""
        return self._answer()

    def calls(self, count: int) -> dict[str, Any]:
        """So many calls: `seconds` of each, and `memory` so far in bytes."""
        assert self.process.stdin
        print(count, file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        last = self.process.stderr.read().strip().splitlines()[-1:]
        raise RuntimeError(f"{self.kind} ends with {self.process.wait()}: {''.join(last)}")


# ---- In the process itself.


def main(kind: str, job: dict[str, Any]) -> None:
    begin = time.perf_counter()
    call = _KINDS[kind](job)
    loaded = time.perf_counter()
    call()
    begun = {"load_s": loaded - begin, "first_call_s": time.perf_counter() - loaded}
    print(json.dumps(begun), flush=True)
    for line in sys.stdin:
        time.sleep(_PAUSE_S)
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "memory": _memory()}), flush=True)


def _pteron(job: dict[str, Any]) -> Callable[[], object]:
    from pteron.command import program_file, values

    program = program_file.load(job["program"], job["data"])
    method = program_file.method_of(program, job["method"])
    inputs = values.inputs_of(method.metadata, job["inputs"])
    return lambda: method.execute(inputs)


def _eager(job: dict[str, Any]) -> Callable[[], object]:
    import torch

    module, args, kwargs = _module(job)
    torch.set_grad_enabled(False)
    return lambda: module(*args, **kwargs)


def _compile(job: dict[str, Any]) -> Callable[[], object]:
    import torch

    module, args, kwargs = _module(job)
    torch.set_grad_enabled(False)
    compiled: Callable[..., Any] = torch.compile(module)
    return lambda: compiled(*args, **kwargs)


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
    "compile": _compile,
    "onnxruntime": _onnxruntime,
}
PEERS = tuple(_KINDS)[1:]


def _module(job: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The module in eval mode, with its example inputs."""
    from pteron.command import model_file
    from pteron.exporter import example_of

    return example_of(model_file.build(job["model"]), job["method"])


def _memory() -> int:
    """The most that was this process's at once, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
