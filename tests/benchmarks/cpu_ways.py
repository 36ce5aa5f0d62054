"""The ways to run a model on the CPU, each in a process of its own.

    python -m tests.benchmarks.cpu_ways MODEL WAY FOLDER THREADS make   # writes the way's files
    python -m tests.benchmarks.cpu_ways MODEL WAY FOLDER THREADS        # serves calls

What a process imports to run a file counts in its memory, so imports are where they are needed:
torch is in the processes of eager, torch.compile and XNNPACK alone.
"""

import dataclasses
import functools
import importlib
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pteron.command import openvino_model
from pteron.command.contender import serve

if TYPE_CHECKING:
    from tests.models.sample import Sample

Call = Callable[[], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to run a model.

    Attributes:
        load: returns the call, given the model's name, the folder, and the threads to use.
        make: writes what `load` reads; may take minutes.
        package: whose version it depends on; "" for our own.
        imports: the module that is imported to run files; `load` then takes the less.
        file: what it makes, in the folder; "" if it makes none.
        is_tuned: whether it has options that the user must set.
        tolerance: of its outputs, relative to the largest of eager's.
    """

    load: Callable[[str, Path, int], Call]
    make: Callable[[str, Path, int], object] | None
    package: str
    imports: str = "torch"
    file: str = ""
    is_tuned: bool = False
    tolerance: float = 1e-3

    @property
    def version(self) -> str:
        return f"{self.package} {metadata.version(self.package)}" if self.package else ""


def sample_of(name: str) -> "Sample":
    """The model of that name."""
    from tests.models.full_size import FULL_SIZE
    from tests.models.networks import NETWORKS

    return {sample.name: sample for sample in (*FULL_SIZE.values(), *NETWORKS)}[name]


@functools.cache
def _built(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The module and its inputs, which are there before the time that making files takes."""
    sample = sample_of(name)
    return sample.module(), sample.inputs(0)


def _inputs(folder: Path) -> list[Any]:
    """As arrays; `_eager` has written them."""
    with np.load(folder / "inputs.npz") as archive:
        return [archive[f"input_{i}"] for i in range(len(archive.files))]


def _tensors(values: Sequence[Any]) -> Sequence[Any]:
    """One tensor or several, as several."""
    return values if isinstance(values, (list, tuple)) else [values]


# ---- PyTorch itself.


def _make_eager(model: str, folder: Path, threads: int) -> None:
    """The inputs, and what is expected of all."""
    sample = sample_of(model)
    inputs = {f"input_{i}": t.numpy() for i, t in enumerate(sample.inputs(0))}
    np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(
        folder / "expected.npz", allow_pickle=False, **_named(_eager(model, folder, threads)())
    )


def _named(outputs: Sequence[Any]) -> dict[str, Any]:
    return {f"output_{i}": np.asarray(output) for i, output in enumerate(outputs)}


def _eager(model: str, folder: Path, threads: int, **options: Any) -> Call:
    import torch

    del folder
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    sample = sample_of(model)
    module: Callable[..., Any] = sample.module()
    if options:
        module = torch.compile(module, **options)
    inputs = sample.inputs(0)
    return lambda: _tensors(module(*inputs))


#: The weights are constants, products are chosen by measuring, and what calls kernels is C++.
_TUNED = {"freezing": True, "max_autotune": True, "cpp_wrapper": True}


# ---- ONNX Runtime.


def _make_onnx(model: str, folder: Path, threads: int) -> None:
    import torch

    del threads
    module, inputs = _built(model)
    try:
        exported = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    except torch.onnx.errors.OnnxExporterError:
        # The exporter fails on attention of some models (Swin); as plain products it passes.
        cast(Any, module).model.set_attn_implementation("eager")
        exported = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(folder / "model.onnx")


def _make_quantized_onnx(model: str, folder: Path, threads: int, bits: int) -> None:
    """Of 8 bits, which it quantizes activations for as well, or of 4 bits in groups of 32."""
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    _make_onnx(model, folder, threads)
    path, name = folder / "model.onnx", f"model{bits}.onnx"
    if bits == 8:
        quantize_dynamic(path, folder / name, per_channel=True)
        return
    quantizer = MatMulNBitsQuantizer(
        str(path), bits=bits, block_size=32, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(folder / name), True)


def _onnxruntime(
    model: str, folder: Path, threads: int, is_tuned: bool = False, bits: int | None = None
) -> Call:
    import onnxruntime

    del model
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if is_tuned:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = onnxruntime.InferenceSession(
        folder / f"model{bits or ''}.onnx", options, providers=["CPUExecutionProvider"]
    )
    names = [about.name for about in session.get_inputs()]
    inputs = dict(zip(names, _inputs(folder), strict=True))
    return lambda: session.run(None, inputs)


# ---- OpenVINO.


def _make_openvino(model: str, folder: Path, threads: int) -> None:
    del threads
    openvino_model.write(sample_of(model).export(_built(model)[0]), folder / "openvino.xml")


def _openvino(model: str, folder: Path, threads: int) -> Call:
    del model
    return openvino_model.load(folder / "openvino.xml", _inputs(folder), threads)


# ---- IREE.


def _make_iree(model: str, folder: Path, threads: int) -> None:
    """From ONNX, which it reads for any version of torch."""
    from iree.compiler.tools import compile_file

    _make_onnx(model, folder, threads)
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(folder / "model.onnx")]
    subprocess.run([*command, "-o", str(folder / "model.mlir")], check=True)
    compile_file(
        str(folder / "model.mlir"),
        input_type="onnx",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
        output_file=str(folder / "model.vmfb"),
    )


def _iree(model: str, folder: Path, threads: int) -> Call:
    from iree import runtime

    del model
    runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")
    module = runtime.load_vm_flatbuffer_file(str(folder / "model.vmfb"), driver="local-task")
    main, inputs = module["main_graph"], _inputs(folder)
    return lambda: [array.to_host() for array in _tensors(main(*inputs))]


# ---- ExecuTorch with XNNPACK.


def _make_xnnpack(
    model: str, folder: Path, threads: int, is_tuned: bool = False, bits: int | None = None
) -> None:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    del threads
    module, inputs = _built(model)
    if is_tuned:
        module, inputs = module.to(memory_format=torch.channels_last), tuple(_last(inputs))
    if bits:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_

        config = Int8DynamicActivationIntxWeightConfig(**_weights_of(bits))
        quantize_(module, config)
    with torch.no_grad():
        exported = torch.export.export(module, inputs)
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    name = "channels_last.pte" if is_tuned else f"xnnpack{bits or ''}.pte"
    (folder / name).write_bytes(program.to_executorch().buffer)


def _weights_of(bits: int) -> dict[str, Any]:
    """torchao's words for 8 bits with a scale for each output, or 4 bits in groups of 32."""
    import torch
    from torchao.quantization import PerAxis, PerGroup

    granularity = PerAxis(0) if bits == 8 else PerGroup(32)
    return {"weight_dtype": getattr(torch, f"int{bits}"), "weight_granularity": granularity}


def _last(inputs: Sequence[Any]) -> list[Any]:
    """Images channels last."""
    import torch

    layout = torch.channels_last
    return [t.contiguous(memory_format=layout) if t.dim() == 4 else t for t in inputs]


def _xnnpack(
    model: str, folder: Path, threads: int, is_tuned: bool = False, bits: int | None = None
) -> Call:
    import torch
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    del model
    portable_lib._unsafe_reset_threadpool(threads)
    name = "channels_last.pte" if is_tuned else f"xnnpack{bits or ''}.pte"
    method = Runtime.get().load_program(folder / name).load_method("forward")
    inputs: Sequence[Any] = [torch.from_numpy(value) for value in _inputs(folder)]
    inputs = _last(inputs) if is_tuned else inputs
    return lambda: method.execute(inputs)


# ---- Ours.


def _make_pteron(
    model: str, folder: Path, threads: int, isa: str = "", bits: int | None = None
) -> None:
    from pteron.backends.cpu import CpuOptions, CpuPartitioner
    from pteron.exir import to_edge_transform_and_lower

    del threads
    options = CpuOptions(isa=isa) if isa else CpuOptions()
    module = _built(model)[0]
    if bits:
        from torchao.quantization import IntxWeightOnlyConfig, quantize_

        weights = _weights_of(bits)
        quantize_(
            module, IntxWeightOnlyConfig(granularity=weights.pop("weight_granularity"), **weights)
        )
    exported = sample_of(model).export(module)
    program = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(options)])
    program.to_executorch().save(folder / f"pteron{isa}{bits or ''}.pte")


def _pteron(model: str, folder: Path, threads: int, isa: str = "", bits: int | None = None) -> Call:
    from pteron.runtime import Runtime

    del model, threads  # OMP_NUM_THREADS is set
    program = Runtime.get().load_program(folder / f"pteron{isa}{bits or ''}.pte")
    loaded = threading.local()  # a method for each caller
    loaded.method = program.load_method("forward")
    inputs = _inputs(folder)

    def call() -> Sequence[Any]:
        if not hasattr(loaded, "method"):
            loaded.method = program.load_method("forward")
        return loaded.method.execute(inputs)

    return call


_tuned = functools.partial(functools.partial, is_tuned=True)
_compiled = functools.partial(_eager, dynamic=False)
_compiled_tuned = functools.partial(_compiled, options=_TUNED)
_native = functools.partial(functools.partial, isa="native")
_ONNX = "onnxruntime", "onnxruntime", "model.onnx"
_XNNPACK = "executorch", "executorch.runtime"
_RUNTIME = "pteron.runtime.python.runtime"  # which pteron.runtime imports when it is asked for

WAYS: Mapping[str, Way] = {
    "eager": Way(_eager, _make_eager, "torch"),
    # Compiled when they are loaded; what is made is the compiler's cache.
    "torch.compile": Way(_compiled, lambda *job: _compiled(*job)(), "torch"),
    "torch.compile, tuned": Way(
        _compiled_tuned, lambda *job: _compiled_tuned(*job)(), "torch", is_tuned=True
    ),
    "xnnpack": Way(_xnnpack, _make_xnnpack, *_XNNPACK, "xnnpack.pte"),
    "xnnpack, tuned": Way(
        _tuned(_xnnpack), _tuned(_make_xnnpack), *_XNNPACK, "channels_last.pte", is_tuned=True
    ),
    "onnxruntime": Way(_onnxruntime, _make_onnx, *_ONNX),
    "onnxruntime, tuned": Way(_tuned(_onnxruntime), None, *_ONNX, is_tuned=True),
    "openvino": Way(_openvino, _make_openvino, "openvino", "openvino", "openvino.bin"),
    "iree": Way(_iree, _make_iree, "iree-base-compiler", "iree.runtime", "model.vmfb"),
    "pteron": Way(_pteron, _make_pteron, "", _RUNTIME, "pteron.pte"),
    "pteron, tuned": Way(
        _native(_pteron), _native(_make_pteron), "", _RUNTIME, "pteronnative.pte", is_tuned=True
    ),
}


def _quantized(bits: int) -> dict[str, Way]:
    """Those that quantize weights of linear layers."""

    def way(load: Any, make: Any, *about: str) -> Way:
        of_bits = functools.partial(functools.partial, bits=bits)
        return Way(
            of_bits(load), of_bits(make), *about, is_tuned=True, tolerance=1
        )  # of random weights

    file = f"xnnpack{bits}.pte", f"model{bits}.onnx", f"pteron{bits}.pte"
    return {
        f"xnnpack int{bits}": way(_xnnpack, _make_xnnpack, *_XNNPACK, file[0]),
        f"onnxruntime int{bits}": way(_onnxruntime, _make_quantized_onnx, *_ONNX[:2], file[1]),
        f"pteron int{bits}": way(_pteron, _make_pteron, "", _RUNTIME, file[2]),
    }


#: Not among those that are compared by default: their results are others.
QUANTIZED_WAYS: Mapping[str, Way] = {**_quantized(8), **_quantized(4)}
ALL_WAYS: Mapping[str, Way] = {**WAYS, **QUANTIZED_WAYS}


def max_relative_error(expected: Path, found: str) -> float:
    """The largest difference over the largest expected magnitude, of all outputs."""
    with np.load(expected) as right, np.load(found) as ours:
        if set(right) != set(ours) or any(right[n].shape != ours[n].shape for n in right):
            return math.inf
        errors = [np.abs(ours[n] - right[n]).max() / (np.abs(right[n]).max() or 1.0) for n in right]
    worst = float(np.max(errors))
    return worst if math.isfinite(worst) else math.inf


def made_s(folder: Path, way: str) -> float | None:
    """Seconds of a core that making its files took; None if it makes none."""
    path = folder / f"{way}.seconds"
    return float(path.read_text()) if path.exists() else None


def _cpu_s() -> float:
    """Seconds of cores that this process has had, and those that it has waited for."""
    return sum(os.times()[:4])


def main(model: str, name: str, folder: str, threads: str, *make: str) -> None:
    way, job = ALL_WAYS[name], (model, Path(folder), int(threads))
    if make:
        if way.make:
            _built(model)
            begin = _cpu_s()
            way.make(*job)
            Path(folder, f"{name}.seconds").write_text(str(_cpu_s() - begin))
        return
    begin = time.perf_counter()
    importlib.import_module(way.imports)
    import_s = time.perf_counter() - begin

    def save(outputs: Sequence[Any]) -> dict[str, Any]:
        """The first call's outputs; an answer needs no words."""
        path = Path(folder) / f"{name}.npz"
        np.savez(path, allow_pickle=False, **_named(outputs))
        return {"outputs": str(path), "import_s": import_s}

    serve(lambda: way.load(*job), save)


if __name__ == "__main__":
    main(*sys.argv[1:])
