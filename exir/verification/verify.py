"""Compares a lowered program with what was exported."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.export import ExportedProgram

from pteron.exir._serialize import schema
from pteron.exir.verification import bisection, execution
from pteron.exir.verification.comparison import Comparison, compare, rounding_of
from pteron.exir.verification.execution import Written
from pteron.exir.verification.reference import Reference

if TYPE_CHECKING:
    from pteron.runtime import Program

_LOG = logging.getLogger(__name__)


class VerificationError(RuntimeError):
    """A lowered program does not compute what the exported one does."""


@dataclass(frozen=True)
class MethodVerification:
    """What a comparison found.

    Attributes:
      comparisons: of the outputs, and of inputs that the method changes, that were compared.
      random: positions of outputs that were left out, since they depend on random numbers.
      calls: how many there were, state carried on.
      seconds: what it took.
      obstacle: why nothing was compared; empty if something was.
      runs_here: whether this machine can run the program; if not, that is the obstacle.
    """

    comparisons: Sequence[Comparison] = ()
    random: frozenset[int] = frozenset()
    calls: int = 0
    seconds: float = 0.0
    obstacle: str = ""
    runs_here: bool = True

    @property
    def ill_conditioned(self) -> list[int]:
        """Positions of outputs that can't be compared: rounding alone changes them too much."""
        return [c.index for c in self.comparisons if not c.is_comparable]

    @property
    def wrong(self) -> list[Comparison]:
        """Of the outputs that differ by more than rounding explains."""
        return [c for c in self.comparisons if not c.is_equal and c.is_comparable]

    def __str__(self) -> str:
        if self.obstacle:
            return f"not run: {self.obstacle}"
        parts = []
        compared = [c for c in self.comparisons if c.is_comparable]
        if compared:
            worst = max(compared, key=lambda c: c.error / (c.limit or 1.0))
            parts.append(
                f"{_count(len(compared), 'output')} in {_count(self.calls, 'call')}: largest"
                f" difference {worst.error:.1e} (limit {worst.limit:.1e})"
            )
        if self.ill_conditioned:
            parts.append(
                f"outputs {self.ill_conditioned} not compared: rounding alone changes them beyond"
                f" all use"
            )
        if self.random:
            parts.append(f"outputs {sorted(self.random)} not compared: they are random")
        return "; ".join(parts or ["no outputs"]) + f"; took {self.seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def verify(
    written: Written,
    references: Mapping[str, Reference],
    edge_programs: Mapping[str, ExportedProgram],
    write: Callable[[ExportedProgram], Written],
) -> dict[str, MethodVerification]:
    """Runs each method and what it was exported from, and compares.

    Args:
      written: the lowered program.
      references: by method; methods without one are not compared.
      edge_programs: the methods as they were before they were emitted.
      write: writes a program with one method, `forward`.

    Raises:
      VerificationError: outputs differ by more than rounding explains, or the program fails. All
        methods are in the message, each with the first operator that differs.
    """
    tables = {method.name: method for method in written.tables.methods}
    reports, problems = {}, []
    for name in edge_programs:
        if name not in references:
            reports[name] = MethodVerification(obstacle="what it was exported from is not known")
            continue
        reference, begin = references[name], time.monotonic()
        try:
            reports[name] = verify_method(execution.loaded(written), tables[name], reference)
        except Exception as error:
            if not _is_of_the_runtime(error):
                raise
            problems.append(f"method {name!r} fails on its example inputs: {error}")
            continue
        if reports[name].ill_conditioned:
            _LOG.warning("method %r: %s", name, reports[name])
        wrong = reports[name].wrong
        if wrong:
            try:
                origin = bisection.first_difference(edge_programs[name], reference, write)
            except Exception as error:
                origin = f"which operator is the first to differ could not be found out: {error}"
            problems.append(f"{differences(name, tables[name], wrong)}\n  {origin}")
        seconds = time.monotonic() - begin
        reports[name] = MethodVerification(**{**vars(reports[name]), "seconds": seconds})
    if problems:
        raise VerificationError(
            "the lowered program does not compute what the exported program does:\n"
            + "\n".join(problems)
            + "\ntry:  leaving that operator out (the partitioner's leave_out), which compiles it"
            " alone,\n      or other options of the backend;\n"
            "      ExecutorchBackendConfig(verify=False) writes the program all the same. Passes"
            " that are\n      meant to change results need it, too."
        )
    return reports


def _is_of_the_runtime(error: Exception) -> bool:
    try:
        from pteron.runtime import PteronError
    except ModuleNotFoundError:
        return False
    return isinstance(error, PteronError)


def verify_method(
    opened: AbstractContextManager[Program], tables: schema.Method, reference: Reference
) -> MethodVerification:
    """Runs one method of a program, and what it was exported from, and compares."""
    if reference.obstacle:
        return MethodVerification(obstacle=reference.obstacle)
    calls = [reference.inputs() for _ in range(reference.call_count)]
    try:
        with opened as program:
            found = execution.run(program, tables, calls, reference.changed_inputs)
    except execution.CannotRunHere as obstacle:
        return MethodVerification(obstacle=str(obstacle), runs_here=False)
    try:
        random, expected = reference.random_outputs(), reference.run()
    except Exception as error:
        return MethodVerification(obstacle=f"the exported program itself fails: {error}")
    tf32 = execution.rounds_to_tf32(tables)
    rounding = rounding_of(reference.run_functional, tf32=tf32)
    comparisons = compare(found, expected, rounding, random, tf32=tf32)
    return MethodVerification(comparisons, random, len(calls))


def differences(name: str, tables: schema.Method, wrong: Sequence[Comparison]) -> str:
    """A line for each output that differs."""
    lines = [f"method {name!r}, on its example inputs:"]
    for comparison in wrong:
        position = comparison.index - len(tables.outputs)
        what = f"output {comparison.index}" if position < 0 else f"changed input {position}"
        lines.append(
            f"  {what}: differs by {comparison.error:.1e} of its largest value; rounding explains"
            f" {comparison.limit:.1e}"
        )
    return "\n".join(lines)
