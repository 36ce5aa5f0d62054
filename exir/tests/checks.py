"""Lower, write, read, run and compare: what most tests of lowering do."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pteron.exir import to_edge_transform_and_lower
from pteron.exir.config import ExecutorchBackendConfig
from pteron.exir.program import EdgeProgramManager, ExecutorchProgramManager
from pteron.exir.tests import interpreter
from pteron.exir.tests.backends import OpsPartitioner, run_delegate


def lower(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
) -> EdgeProgramManager:
    """Exports a model and lowers all of it to `GraphBackend`, or what `partitioner` takes."""
    program = torch.export.export(
        copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=dynamic_shapes
    )
    return to_edge_transform_and_lower(
        program, partitioner=[OpsPartitioner()] if partitioner is None else partitioner
    )


def load(program: ExecutorchProgramManager) -> dict[str, interpreter.Method]:
    """Loads the written program."""
    return interpreter.load(program.buffer, run_delegate)


def run_nested(method: interpreter.Method, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Runs on nested inputs; outputs are flat."""
    return method(*pytree.tree_leaves((tuple(args), dict(kwargs))))


def assert_equal(found: Any, expected: Any) -> None:
    """Compares two trees; tensors may differ by rounding."""
    for ours, theirs in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(ours, theirs)
        else:
            assert type(ours) is type(theirs) and ours == theirs


def check(
    model: torch.nn.Module,
    *calls: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
    config: ExecutorchBackendConfig | None = None,
) -> ExecutorchProgramManager:
    """Lowers a model, runs it once per call and compares each result with eager, state included.

    The first call's arguments are the example inputs. Inputs that the model changes are compared
    as well. Returns the written program.
    """
    kwargs = kwargs or {}
    # None (not False) leaves a leaf in the tree.
    edge = lower(
        model,
        copy.deepcopy(calls[0]),
        copy.deepcopy(kwargs),
        dynamic_shapes=dynamic_shapes,
        partitioner=partitioner,
    )
    program = edge.to_executorch(config)
    method = load(program)["forward"]
    eager = copy.deepcopy(model).eval()
    for args in calls:
        ours, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        with torch.no_grad():
            expected = pytree.tree_leaves(eager(*theirs[0], **theirs[1]))
        found = run_nested(method, *ours)
        assert_equal(found, expected)
        assert_equal(ours, theirs)
    return program
