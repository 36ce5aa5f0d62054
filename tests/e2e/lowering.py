"""Lowers samples to files and lays out their inputs and outputs for other processes."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import torch
from absl.testing import absltest
from safetensors.torch import save_file

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from pteron.runtime import Program, Runtime
from tests.models.cases import Case, Together
from tests.models.sample import Sample, max_relative_error


def lower_program(
    sample: Sample, module: torch.nn.Module, options: CpuOptions | None = None
) -> ExecutorchProgramManager:
    """The emitted program of `sample`, for the CPU backend."""
    partitioner = [CpuPartitioner(options)]
    manager = to_edge_transform_and_lower(sample.export(module), partitioner=partitioner)
    return manager.to_executorch()


@dataclasses.dataclass(frozen=True)
class Results:
    """What each case gave in a program of all of them, what it gives in eager and in double."""

    found: dict[str, Any]
    eager: dict[str, Any]
    exact: dict[str, Any]

    def check(self, name: str, tolerance: float) -> None:
        """Fails if an error of case `name`, relative to the largest value, exceeds `tolerance`."""
        values = (flat_outputs(each[name]) for each in (self.found, self.eager, self.exact))
        for index, (found, eager, exact) in enumerate(zip(*values, strict=True)):
            assert found.dtype == eager.dtype
            if not found.dtype.is_floating_point:
                assert torch.equal(found, exact), f"output {index}: {found}, expected {exact}"
                continue
            ours, theirs = (max_relative_error(v.double(), exact.double()) for v in (found, eager))
            assert ours <= tolerance, f"output {index}: error {ours:.2e}; eager's is {theirs:.2e}"


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A program of several cases."""

    together: Together
    path: pathlib.Path
    structure: torch.utils._pytree.TreeSpec

    def run(self, **options: int) -> Results:
        """One call, with options of the CPU backend at run time."""
        method = (
            Runtime.get()
            .load_program(self.path)
            .load_method("forward", backend_options={"CpuBackend": options})
        )
        outputs = method.execute(list(self.together.inputs()))
        found = torch.utils._pytree.tree_unflatten(outputs, self.structure)
        with torch.no_grad():
            return Results(found, self.together(*self.together.inputs()), self.together.exact())


def lower_to_file(program: Any, path: pathlib.Path, options: CpuOptions | None = None) -> Program:
    """Lowers an exported program, or several by method, for the CPU; writes and loads it."""
    manager = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner(options)])
    manager.to_executorch().save(path)
    return Runtime.get().load_program(path)


def lower_together(
    cases: Sequence[Case],
    path: pathlib.Path,
    options: CpuOptions | None = None,
    dtype: torch.dtype = torch.float32,
) -> Lowered:
    """Lowers `cases` to one program at `path`, with what `options` say or not at all."""
    together = Together(cases, dtype)
    exported = torch.export.export(together, together.inputs())
    with absltest.TestCase().assertNoLogs("pteron.backends.aoti", "WARNING"):  # no fallback
        lower_to_file(exported, path, options)
    return Lowered(together, path, exported.call_spec.out_spec)


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
