"""Each way to run a sample model on the CPU, as a callable over the same inputs.

A contender is made once (lowering, compiling, loading) and then called; what it costs to make is
not part of its time. Whoever cannot take a model says why by an exception.
"""

import pathlib
from collections.abc import Callable

import torch

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime
from tests.models.sample import Sample

Contender = Callable[[], list[torch.Tensor]]
Maker = Callable[[Sample, pathlib.Path], Contender]


def eager(sample: Sample, folder: pathlib.Path) -> Contender:
    """The module as it is."""
    del folder
    module, inputs = sample.module(), sample.inputs(0)
    return lambda: [module(*inputs)]


def torch_compile(sample: Sample, folder: pathlib.Path) -> Contender:
    """torch.compile with its defaults."""
    del folder
    torch.compiler.reset()
    module, inputs = torch.compile(sample.module()), sample.inputs(0)
    return lambda: [module(*inputs)]


def aoti_package(sample: Sample, folder: pathlib.Path) -> Contender:
    """An AOTInductor package with its defaults, which needs libtorch."""
    path = str(folder / f"{sample.name}.pt2")
    torch._inductor.aoti_compile_and_package(sample.export(), package_path=path)
    package, inputs = torch._inductor.aoti_load_package(path), sample.inputs(0)
    return lambda: [package(*inputs)]


def xnnpack(sample: Sample, folder: pathlib.Path) -> Contender:
    """ExecuTorch 1.5.1 with its XNNPACK delegate."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower as stock_lower
    from executorch.runtime import Runtime as StockRuntime

    program = stock_lower(sample.export(), partitioner=[XnnpackPartitioner()]).to_executorch()
    path = folder / f"{sample.name}_xnnpack.pte"
    path.write_bytes(program.buffer)
    method = StockRuntime.get().load_program(path).load_method("forward")
    inputs = list(sample.inputs(0))
    return lambda: method.execute(inputs)


def pteron(isa: str) -> Maker:
    """Our program, compiled for `isa`."""

    def make(sample: Sample, folder: pathlib.Path) -> Contender:
        path = folder / f"{sample.name}_pteron.pte"
        partitioner = CpuPartitioner(CpuOptions(isa=isa))
        manager = to_edge_transform_and_lower(sample.export(), partitioner=[partitioner])
        manager.to_executorch().save(str(path))
        method = Runtime.get().load_program(path).load_method("forward")
        inputs = list(sample.inputs(0))
        return lambda: method.execute(inputs)

    return make
