"""Takes one architecture through all steps.

outcome = examine(("llama", "cpu"))
outcome.failed_step     # "" or, for instance, "lowers"
"""

import copy
import dataclasses
import importlib.metadata
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pteron.exir import VerificationError, to_edge_transform_and_lower
from pteron.exir.explain import ProgramReport
from pteron.runtime import Runtime
from tests.models.sample import max_relative_error
from tests.pool.logged import logged_warnings
from tests.survey.architectures import build
from tests.survey.libraries.recipe import Absent, Recipe
from tests.survey.outcome import ABSENT, Outcome

#: The largest error that counts as the same result.
TOLERANCE = 1e-3

Task = tuple[str, str]
"""An architecture and a device."""


def examine(task: Task) -> Outcome:
    """What comes of an architecture on a device; nothing is raised."""
    outcome = Outcome(*task)
    try:
        # By default torch rounds what CUDA convolutions read to TF32, and we do not.
        torch.backends.cudnn.allow_tf32 = False
        with torch.no_grad(), logged_warnings("pteron.backends", outcome.warnings):
            _Examination(outcome).run()
    except Absent:
        outcome.reason = ABSENT
    except VerificationError as error:
        outcome.steps += ["lowers", "runs"]
        outcome.reason = f"{type(error).__name__}: {error}"
    except Exception as error:
        outcome.reason = f"{type(error).__name__}: {error}"[:4000]
    return outcome


def unfinished(task: Task, reason: str) -> Outcome:
    """The outcome where the process ended or took too long."""
    return Outcome(*task, reason=reason)


class _Examination:
    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._begin = time.monotonic()

    def run(self) -> None:
        outcome = self._outcome
        outcome.versions["torch"] = torch.__version__
        candidates = build(outcome.model)
        outcome.versions[outcome.library] = importlib.metadata.version(outcome.library)
        self._passed("builds")
        exported, chosen = _export([_on(way, outcome.device) for way in candidates])
        self._passed("exports")
        lowered = to_edge_transform_and_lower(exported, partitioner=[_partitioner(outcome.device)])
        program = lowered.to_executorch()
        outcome.on_cpu = None if outcome.device == "cpu" else _on_cpu(program.explain())
        self._passed("lowers")
        with tempfile.TemporaryDirectory(prefix="pteron-survey-") as folder:
            path = Path(folder, "model.pte")
            program.save(path)
            program.write_tensor_data_to_file(folder)
            method = (
                Runtime.get()
                .load_program(path, data_path=sorted(Path(folder).glob("*.ptd")))
                .load_method("forward")
            )
            found = [_execute(method, call) for call in chosen.calls()]
        self._passed("runs")
        for result, (args, kwargs) in zip(found, chosen.calls(), strict=True):
            self._compare(result, exported, chosen.module, args, kwargs)
        self._passed("matches")

    def _compare(
        self,
        found: list[Any],
        exported: torch.export.ExportedProgram,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        outcome = self._outcome
        expected = module(*args, **kwargs)
        error = _error(found, expected)
        outcome.error = max(error, outcome.error or 0.0)
        if not error <= TOLERANCE:
            exported_outputs = exported.module()(*args, **kwargs)
            theirs = _error(pytree.tree_leaves(exported_outputs), expected)
            if not theirs <= TOLERANCE:  # models ask whether they are being exported
                outcome.steps.remove("exports")
                raise _Differs(f"what torch.export made differs from the module by {theirs:.1e}")
            raise _Differs(f"differs by {error:.1e}, more than {TOLERANCE:.0e}")

    def _passed(self, step: str) -> None:
        now = time.monotonic()
        self._outcome.steps.append(step)
        self._outcome.seconds[step] = round(now - self._begin, 2)
        self._begin = now


def _on(recipe: Recipe, device: str) -> Recipe:
    """The same on a device."""

    def moved(tree: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), tree)

    return dataclasses.replace(
        recipe,
        module=recipe.module.to(device),
        args=moved(recipe.args),
        kwargs=moved(dict(recipe.kwargs)),
        other=moved(recipe.other),
    )


def _export(candidates: Sequence[Recipe]) -> tuple[torch.export.ExportedProgram, Recipe]:
    """The program of the first call that can be exported."""
    failures = []
    for way in candidates:
        try:
            # A copy: models keep tensors from call to call, and those of a trace have no values.
            exported = torch.export.export(
                copy.deepcopy(way.module),
                way.args,
                dict(way.kwargs),
                dynamic_shapes=way.dynamic_shapes,
            )
            return exported, way
        except Exception as error:
            failures.append(error)
    raise failures[0]


class _Differs(Exception):
    """The program returned something else than eager."""


def _partitioner(device: str) -> Any:
    if device == "cuda":
        from pteron.backends.cuda import CudaPartitioner

        return CudaPartitioner()
    from pteron.backends.cpu import CpuPartitioner

    return CpuPartitioner()


def _on_cpu(report: ProgramReport) -> int:
    """Calls in partitions of the CPU; the runtime's own kernels only view, copy and count."""
    return sum(
        sum(partition.op_counts.values())
        for method in report.methods
        for partition in method.partitions
        if partition.backend_id == "CpuBackend"
    )


def _execute(method: Any, call: tuple[tuple[Any, ...], Mapping[str, Any]]) -> list[Any]:
    """As callers have them by default: inputs and outputs on the host."""
    inputs = pytree.tree_map_only(torch.Tensor, lambda x: x.cpu(), pytree.tree_leaves(call))
    found: list[Any] = method.execute(inputs)
    return found


def _error(found: list[Any], expected: Any) -> float:
    """The largest error of an output; infinite where the outputs are of another kind."""
    wanted = pytree.tree_leaves(expected)
    if len(found) != len(wanted):
        raise _Differs(f"{len(found)} outputs instead of {len(wanted)}")
    errors = [0.0]
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, torch.Tensor):
            a, b = (torch.view_as_real(x) if x.is_complex() else x for x in (a, b))
            errors.append(max_relative_error(a.cpu(), b.detach().cpu()))
        elif a != b:
            raise _Differs(f"{a!r} instead of {b!r}")
    return max(errors)
