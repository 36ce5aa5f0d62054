"""Sample models as program files for the GPU, and what eager says of them."""

import pathlib
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pteron.backends.cuda import CudaOptions, CudaPartitioner
from pteron.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from pteron.runtime import Runtime
from tests.models.features import FEATURES
from tests.models.networks import NETWORKS
from tests.models.sample import Sample, max_relative_error

#: For save(): inputs are used in place on the device, and outputs stay there.
ON_DEVICE = {"skip_h2d_for_method_inputs": True, "skip_d2h_for_method_outputs": True}


def sample_named(name: str) -> Sample:
    return next(sample for sample in NETWORKS + FEATURES if sample.name == name)


def lower(program: Any, options: CudaOptions | None = None) -> Any:
    """The lowering's manager for an exported program, or for several by method."""
    return to_edge_transform_and_lower(program, partitioner=[CudaPartitioner(options)])


def save(manager: Any, folder: pathlib.Path, **config: Any) -> pathlib.Path:
    """Writes program and weights; returns the program's path."""
    program = manager.to_executorch(ExecutorchBackendConfig(**config))
    program.save(folder / "model.pte")
    program.write_tensor_data_to_file(folder)
    return folder / "model.pte"


def data_of(path: pathlib.Path) -> list[pathlib.Path]:
    """The weight files beside a program."""
    return sorted(path.parent.glob("*.ptd"))


def load(path: pathlib.Path) -> Any:
    return Runtime.get().load_program(path, data_path=data_of(path))


def flat(tree: Any) -> list[Any]:
    return pytree.tree_leaves(tree)


def inputs_of(sample: Sample, seed: int) -> list[Any]:
    return flat((sample.inputs(seed), sample.kwargs(seed)))


def eager(sample: Sample, calls: int) -> list[list[Any]]:
    """Flat outputs on the CPU for seeds 0, 1, ..., call by call, state carried on."""
    module = sample.module()
    with torch.no_grad():
        return [
            [
                v.clone() if isinstance(v, torch.Tensor) else v
                for v in flat(module(*sample.inputs(seed), **sample.kwargs(seed)))
            ]
            for seed in range(calls)
        ]


def check(found: list[Any], expected: list[Any], tolerance: float) -> None:
    """The largest error relative to the largest magnitude of each output stays below tolerance."""
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        error = max_relative_error(torch.as_tensor(a).cpu(), torch.as_tensor(b))
        assert error <= tolerance, f"output {index}: relative error {error:.2e}"
