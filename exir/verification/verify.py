"""Compares a lowered program with the exported one."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch.export import ExportedProgram

from pteron.exir._serialize import schema
from pteron.exir.verification import bisection, execution
from pteron.exir.verification.comparison import (
    Calls,
    Comparison,
    Samples,
    compare,
    rounding_of,
)
from pteron.exir.verification.execution import Written
from pteron.exir.verification.other_inputs import other_inputs
from pteron.exir.verification.reference import Reference

if TYPE_CHECKING:
    from pteron.runtime import Program

_LOG = logging.getLogger(__name__)

_SHARE, _LEAST, _MOST = 0.25, 1.0, 60.0
"""Time limit for further inputs: a fraction of the lowering time, and its bounds in seconds."""


class VerificationError(RuntimeError):
    """The outputs of the lowered and the exported program differ."""


@dataclass(frozen=True)
class MethodVerification:
    """The result of a comparison.

    Attributes:
      comparisons: of the compared outputs and mutated inputs; on the first inputs with a wrong one,
        or on the example inputs.
      reference: the exported program, and the inputs.
      random: positions of outputs that were skipped, since they are random.
      calls: number of consecutive calls.
      others: further inputs with correct outputs.
      skipped: inputs on which the exported program itself fails, with the error.
      seconds: duration.
      obstacle: why nothing was compared; empty otherwise.
      runs_here: whether this machine can run the program; if not, `obstacle` says why.
    """

    comparisons: Sequence[Comparison] = ()
    reference: Reference | None = None
    random: frozenset[int] = frozenset()
    calls: int = 0
    others: Sequence[str] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    obstacle: str = ""
    runs_here: bool = True

    @property
    def ill_conditioned(self) -> list[int]:
        """Positions of outputs that cannot be compared, because rounding alone changes them too
        much."""
        return [c.index for c in self.comparisons if not c.is_comparable]

    @property
    def wrong(self) -> list[Comparison]:
        """Comparisons of outputs that differ by more than rounding."""
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
        if self.others:
            parts.append(f"right, too, {', '.join(self.others)}")
        parts += [f"not compared {where}: {why}" for where, why in self.skipped.items()]
        return "; ".join(parts or ["no outputs"]) + f"; took {self.seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def verify(
    written: Written,
    references: Mapping[str, Reference],
    edge_programs: Mapping[str, ExportedProgram],
    write: Callable[[ExportedProgram], Written],
    *,
    full: bool = True,
) -> dict[str, MethodVerification]:
    """Runs each lowered and exported method and compares them.

    Args:
      written: the lowered program.
      references: by method; methods without one are not compared.
      edge_programs: the methods before emission.
      write: writes a program with one method, `forward`.
      full: whether to try inputs other than the example's, for about a quarter of the time since
        the references were created.

    Raises:
      VerificationError: outputs differ by more than rounding, or the program fails. The message
        lists all methods, each with the first operator that differs.
    """
    tables = {method.name: method for method in written.tables.methods}
    reports, problems = {}, []
    for name in edge_programs:
        if name not in references:
            reports[name] = MethodVerification(obstacle="the exported program is not available")
            continue
        reference, begin = references[name], time.monotonic()
        seconds = (begin - reference.begun) * _SHARE / len(edge_programs)
        opened, budget = execution.loaded(written), min(max(seconds, _LEAST), _MOST)
        try:
            report = verify_method(opened, tables[name], reference, budget if full else 0.0)
        except VerificationError as error:
            problems.append(f"method {name!r} {error}")
            continue
        if report.ill_conditioned:
            _LOG.warning("method %r: %s", name, report)
        if report.wrong:
            assert report.reference is not None
            try:
                origin = bisection.first_difference(
                    edge_programs[name], report.reference, [c.index for c in report.wrong], write
                )
            except Exception as error:
                origin = f"the first operator that differs could not be determined: {error}"
            problems.append(f"{differences(name, tables[name], report)}\n  {origin}")
        reports[name] = replace(report, seconds=time.monotonic() - begin)
    if problems:
        raise VerificationError(
            "the lowered program differs from the exported program:\n"
            + "\n".join(problems)
            + "\ntry:  leaving that operator out (the partitioner's leave_out), which compiles it"
            " alone,\n      or other options of the backend;\n"
            "      ExecutorchBackendConfig(verify=False) writes the program all the same. Passes"
            " that are\n      meant to change results need it, too."
            ' verify="example" keeps to the example inputs.'
        )
    return reports


def _is_of_the_runtime(error: Exception) -> bool:
    try:
        from pteron.runtime import PteronError
    except ModuleNotFoundError:
        return False
    return isinstance(error, PteronError)


def verify_method(
    opened: AbstractContextManager[Program],
    tables: schema.Method,
    reference: Reference,
    seconds: float = _LEAST,
) -> MethodVerification:
    """Runs one lowered and exported method and compares them.

    On the example inputs first, then on others for about `seconds`, unless 0.

    Raises:
      VerificationError: the program fails.
    """
    if reference.obstacle:
        return MethodVerification(obstacle=reference.obstacle)
    deadline = time.monotonic() + seconds
    products = execution.precision_of_products(tables)
    samples = rounding_of(reference.run_functional, products=products)
    of_example: Samples = [functools.cache(sample) for sample in samples]
    others: list[str] = []
    skipped: dict[str, str] = {}

    def found(tried: Reference) -> Calls:
        try:
            return run.run(lambda: [tried.inputs() for _ in range(tried.call_count)])
        except Exception as error:
            if not _is_of_the_runtime(error):
                raise
            raise VerificationError(f"fails {tried.where}: {error}") from error

    def compared(tried: Reference, ours: Calls, theirs: Calls) -> MethodVerification:
        # Other strides of the example have the same values, so they share its samples.
        rounding = of_example
        if tried.given is not None:
            rounding = rounding_of(tried.run_functional, products=products)
        comparisons = compare(ours, theirs, rounding, random, products=products)
        calls = tried.call_count * (1 + len(others))
        return MethodVerification(comparisons, tried, random, calls, others, skipped)

    with opened as program:
        try:
            run = execution.Execution(
                program, tables, reference.changed_inputs, has_state=reference.call_count > 1
            )
            begin = time.monotonic()
            ours = found(reference)
        except execution.CannotRunHere as obstacle:
            return MethodVerification(obstacle=str(obstacle), runs_here=False)
        try:
            random, theirs = reference.random_outputs(), reference.run()
        except Exception as error:
            return MethodVerification(obstacle=f"the exported program itself fails: {error}")
        report = compared(reference, ours, theirs)
        cost = time.monotonic() - begin
        if not seconds:
            return report

        def fits(times: float) -> bool:
            return time.monotonic() + cost * times < deadline

        for tried in other_inputs(reference, fits):
            if report.wrong:
                break
            if tried.given is not None:  # otherwise the values are equal
                try:
                    theirs = tried.run()
                except Exception as error:
                    first_line = str(error).strip().partition("\n")[0]
                    skipped[tried.where] = f"the exported program fails: {first_line}"
                    continue
            other = compared(tried, found(tried), theirs)
            if other.wrong:
                report = other
            elif not other.ill_conditioned:
                others.append(tried.where)
    return report


def differences(name: str, tables: schema.Method, report: MethodVerification) -> str:
    """A line per differing output."""
    assert report.reference is not None
    lines = [f"method {name!r}, {report.reference.where}:"]
    for comparison in report.wrong:
        position = comparison.index - len(tables.outputs)
        what = f"output {comparison.index}" if position < 0 else f"changed input {position}"
        lines.append(
            f"  {what}: differs by {comparison.error:.1e} of its largest value; rounding explains"
            f" {comparison.limit:.1e}; {comparison.what}; {_count(comparison.wrong, 'element')} so"
        )
    return "\n".join(lines)
