"""Lowers samples to files and lays out their inputs and outputs for other processes."""

from __future__ import annotations

import pathlib
import unittest
from typing import Any

import torch
from safetensors.torch import save_file

from backends.cpu import CpuOptions, CpuPartitioner
from exir import ExecutorchProgramManager, to_edge_transform_and_lower
from exir.backend.utils import get_delegates
from runtime import Runtime
from tests.models.cases import Together
from tests.models.sample import Sample


def lower_program(
    sample: Sample, module: torch.nn.Module, options: CpuOptions | None = None
) -> ExecutorchProgramManager:
    """The emitted program of `sample`, for the CPU backend."""
    partitioner = [CpuPartitioner(options)]
    manager = to_edge_transform_and_lower(sample.export(module), partitioner=partitioner)
    return manager.to_executorch()


def run_together(
    together: Together,
    path: pathlib.Path,
    options: CpuOptions | None = None,
    dynamic_shapes: Any = None,
) -> dict[str, Any]:
    """What each case gives in a program of all of them, compiled as `options` ask for."""
    exported = torch.export.export(together, together.inputs(), dynamic_shapes=dynamic_shapes)
    with unittest.TestCase().assertNoLogs("backends.aoti", "WARNING"):  # no easier options
        manager = to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner(options)])
        manager.to_executorch().save(path)
    method = Runtime.get().load_program(path).load_method("forward")
    outputs = method.execute(list(together.inputs()))
    return torch.utils._pytree.tree_unflatten(outputs, exported.call_spec.out_spec)


def delegate_sizes(program: ExecutorchProgramManager, method: str = "forward") -> list[int]:
    """How many ops each delegate of a method stands for."""
    exported = program.exported_program(method)
    return [
        len(getattr(exported.graph_module, node.target).nodes())
        for node in get_delegates(exported.graph)
    ]


def flat_inputs(sample: Sample, seed: int) -> list[Any]:
    """The inputs in the order in which a program takes them."""
    leaves, _ = torch.utils._pytree.tree_flatten((sample.inputs(seed), sample.kwargs(seed)))
    return leaves


def flat_outputs(outputs: Any) -> list[Any]:
    """The outputs in the order in which a program gives them."""
    return torch.utils._pytree.tree_flatten(outputs)[0]


def save_tensors(path: pathlib.Path, prefix: str, values: list[Any]) -> None:
    """Writes `values` as `{prefix}_{i}`; python scalars become 0-d tensors."""
    tensors = {f"{prefix}_{i}": torch.as_tensor(v).contiguous() for i, v in enumerate(values)}
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, str(path))
