"""Random modules lowered together, run, and compared one by one with double precision.

    outcome = run_group(configurations("cpu")["packed-template-v3"], [0, 1, 2], path)
    outcome.errors      # {1: "call 0, output 2: ..."}: seed 1 is wrong, 0 and 2 are right

Most of the time that a small module takes is the same for ten of them in one program.
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pteron.exir import to_edge_transform_and_lower
from pteron.runtime import Runtime
from tests.models.random_modules import CALLS, RandomModule
from tests.models.sample import max_relative_error
from tests.pool.logged import logged_warnings
from tests.random.configurations import Configuration
from tests.random.coverage import shims_of, templates_taken


@dataclasses.dataclass
class Outcome:
    """What came of a group.

    Attributes:
        errors: for each seed that failed, how.
        families: for each seed, those of its module's steps.
        templates: how often each was taken for a product.
        shims: names that the program imports.
        warnings: what lowering said of the program, such as that Inductor failed at first.
      seconds: how long each part took.
    """

    configuration: str
    seeds: list[int]
    errors: dict[int, str] = dataclasses.field(default_factory=dict)
    families: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    templates: dict[str, int] = dataclasses.field(default_factory=dict)
    shims: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)


class Group(nn.Module):
    """Takes the inputs of all its members and returns all their outputs."""

    def __init__(self, seeds: Sequence[int]) -> None:
        super().__init__()
        self.members = nn.ModuleList(RandomModule(seed) for seed in seeds)

    def inputs(self, call: int) -> list[torch.Tensor]:
        return [x for member in self.members for x in member.inputs(call)]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: list[torch.Tensor] = []
        for index, member in enumerate(self.members):
            outputs += member(*inputs[2 * index : 2 * index + 2])
        return tuple(outputs)


def run_group(configuration: Configuration, seeds: Sequence[int], path: Path) -> Outcome:
    """Lowers the modules of `seeds` to one program at `path`, and runs it.

    Raises:
        Whatever lowering or running raises, which says nothing of whose fault it is.
    """
    outcome = Outcome(configuration.name, list(seeds))
    watch = _Watch(outcome.seconds)
    group = Group(seeds).eval()
    outcome.families = {member.seed: member.drawn for member in group.members}
    watch.lap("draw")
    with templates_taken() as templates, logged_warnings("pteron.backends", outcome.warnings):
        program = _lower(group, configuration)
    outcome.templates = dict(templates)
    program.save(path)
    outcome.shims = shims_of(path.read_bytes())
    watch.lap("lower")
    outcome.errors = _errors(path, group)
    watch.lap("run and compare")
    return outcome


def run_again(path: Path, seeds: Sequence[int]) -> dict[int, str]:
    """The errors of what `run_group` left at `path`, in this process."""
    return _errors(path, Group(seeds).eval())


def _errors(path: Path, group: Group) -> dict[int, str]:
    method = Runtime.get().load_program(path).load_method("forward")
    found = [method.execute(group.inputs(call)) for call in range(CALLS)]
    members = zip(group.members, _by_member(group, found), strict=True)
    errors = {member.seed: _difference(member, results) for member, results in members}
    return {seed: error for seed, error in errors.items() if error}


def _lower(group: Group, configuration: Configuration) -> Any:
    # A copy: what is exported is on the device, and lowering may keep it.
    module = Group([member.seed for member in group.members]).eval().to(configuration.device)
    inputs = tuple(x.to(configuration.device) for x in group.inputs(0))
    shapes = tuple(shape for member in group.members for shape in member.dynamic_shapes())
    with torch.no_grad():
        exported = torch.export.export(module, inputs, dynamic_shapes=(shapes,))
    lowered = to_edge_transform_and_lower(exported, partitioner=[configuration.partitioner()])
    return lowered.to_executorch()


def _by_member(
    group: Group, found: Sequence[Sequence[torch.Tensor]]
) -> list[list[Sequence[torch.Tensor]]]:
    """For each member, its outputs call by call."""
    results = []
    first = 0
    for member in group.members:
        last = first + len(member.tolerances)
        results.append([outputs[first:last] for outputs in found])
        first = last
    return results


def _difference(member: RandomModule, found: Sequence[Sequence[torch.Tensor]]) -> str:
    """The largest difference from the module in double precision, if it is too large."""
    exact = member.double()
    for call, outputs in enumerate(found):
        with torch.no_grad():
            expected = exact(*(x.double() for x in member.inputs(call)))
        for index, (a, b) in enumerate(zip(outputs, expected, strict=True)):
            if a.dtype != torch.float32:
                return f"call {call}, output {index}: {a.dtype}"
            a = a.cpu().double()
            error = max_relative_error(a, b)
            # What numbers of about one leave when they cancel is all rounding.
            if not (error <= member.tolerances[index] or (a - b).abs().max() <= 1e-6):
                return (
                    f"call {call}, output {index} of {tuple(b.shape)}: relative error {error:.2e}"
                )
    return ""


class _Watch:
    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._seconds[name], self._last = round(now - self._last, 2), now
