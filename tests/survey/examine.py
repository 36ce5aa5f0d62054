"""Takes one architecture through all steps.

outcome = examine(("llama", "cpu"))
outcome.failed_step     # "" or, for instance, "lowers"
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pteron.exir import VerificationError, to_edge_transform_and_lower
from pteron.exir.explain import ProgramReport
from pteron.runtime import Runtime
from tests.models.sample import max_relative_error
from tests.pool.logged import logged_warnings
from tests.survey.architectures import Absent, Inputs, build
from tests.survey.outcome import ABSENT, Outcome

#: The largest error that counts as the same result.
TOLERANCE = 1e-3

Task = tuple[str, str]
"""An architecture and a device."""


def examine(task: Task) -> Outcome:
    """What comes of an architecture on a device; nothing is raised."""
    import transformers

    transformers.logging.set_verbosity_error()
    outcome = Outcome(*task)
    outcome.versions = {"torch": torch.__version__, "transformers": transformers.__version__}
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
        module, candidates = build(outcome.model)
        module = module.to(outcome.device)
        self._passed("builds")
        exported, kwargs = _export(module, candidates, outcome.device)
        self._passed("exports")
        lowered = to_edge_transform_and_lower(exported, partitioner=[_partitioner(outcome.device)])
        program = lowered.to_executorch()
        outcome.on_cpu = None if outcome.device == "cpu" else _on_cpu(program.explain())
        self._passed("lowers")
        with tempfile.TemporaryDirectory(prefix="pteron-survey-") as folder:
            path = Path(folder, "model.pte")
            program.save(path)
            program.write_tensor_data_to_file(folder)
            found = _execute(path, sorted(Path(folder).glob("*.ptd")), kwargs)
        self._passed("runs")
        expected = module(**kwargs)
        outcome.error = _error(found, expected)
        if not outcome.error <= TOLERANCE:
            theirs = _error(pytree.tree_leaves(exported.module()(**kwargs)), expected)
            if not theirs <= TOLERANCE:  # models ask whether they are being exported
                outcome.steps.remove("exports")
                raise _Differs(f"what torch.export made differs from the module by {theirs:.1e}")
            raise _Differs(f"differs by {outcome.error:.1e}, more than {TOLERANCE:.0e}")
        self._passed("matches")

    def _passed(self, step: str) -> None:
        now = time.monotonic()
        self._outcome.steps.append(step)
        self._outcome.seconds[step] = round(now - self._begin, 2)
        self._begin = now


def _export(
    module: torch.nn.Module, candidates: Sequence[Inputs], device: str
) -> tuple[torch.export.ExportedProgram, dict[str, Any]]:
    """The program for the first inputs that it can be exported with."""
    failures = []
    for inputs in candidates:
        kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), dict(inputs))
        try:
            return torch.export.export(module, (), kwargs), kwargs
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


def _execute(path: Path, data: list[Path], kwargs: dict[str, Any]) -> list[Any]:
    """As callers have them by default: inputs and outputs on the host."""
    program = Runtime.get().load_program(path, data_path=data)
    inputs = pytree.tree_map_only(torch.Tensor, lambda x: x.cpu(), pytree.tree_leaves(kwargs))
    found: list[Any] = program.load_method("forward").execute(inputs)
    return found


def _error(found: list[Any], expected: Any) -> float:
    """The largest error of an output; infinite where the outputs are of another kind."""
    wanted = pytree.tree_leaves(expected)
    if len(found) != len(wanted):
        raise _Differs(f"{len(found)} outputs instead of {len(wanted)}")
    errors = [0.0]
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, torch.Tensor):
            errors.append(max_relative_error(a.cpu(), b.detach().cpu()))
        elif a != b:
            raise _Differs(f"{a!r} instead of {b!r}")
    return max(errors)
