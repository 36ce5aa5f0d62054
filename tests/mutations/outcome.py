"""What came of one run of a test, and the table of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.mutations.mutation import Mutation

CAUGHT = "caught"

_PASSED, _TESTS_FAILED = 0, 3  # Bazel's exit codes
_PYTEST = re.compile(r"^_{3,} (\S.*?) _{3,}$", re.MULTILINE)
_GTEST = re.compile(r"^\[  FAILED  \] (\S+?),? ", re.MULTILINE)
_TIMEOUT = re.compile(r"^\S+ +TIMEOUT in ", re.MULTILINE)


class Outcome(NamedTuple):
    """Status and, human-readable, what was seen.

    Of a test: "passed", "failed", or "broken" where it did not build or could not be imported. Of
    a mutation: CAUGHT, "survived" or "broken".
    """

    status: str
    detail: str = ""

    @classmethod
    def of_test(cls, exit_code: int, output: str) -> Outcome:
        """From what `bazel test` returned and wrote."""
        if exit_code == _PASSED:
            return cls("passed")
        cases = _PYTEST.findall(output) or _GTEST.findall(output)
        collecting = [case for case in cases if case.startswith("ERROR collecting")]
        if exit_code != _TESTS_FAILED or collecting:
            lines = [line for line in output.splitlines() if "ERROR" in line] or ["?"]
            return cls("broken", lines[0].strip())
        if not cases and _TIMEOUT.search(output):
            return cls("failed", "timeout")
        return cls.of_cases(cases)

    @classmethod
    def of_cases(cls, cases: Sequence[str]) -> Outcome:
        """From the names of the cases that failed."""
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        return cls("failed", f"{cases[0]}{more}" if cases else "")

    def of_mutation(self) -> Outcome:
        """What a test's outcome means for the mutation it ran under."""
        return self._replace(
            status={"passed": "survived", "failed": CAUGHT}.get(self.status, self.status)
        )

    def without_mutation(self) -> Outcome:
        """Of a mutation whose test does not even pass without it."""
        return Outcome("unusable", f"without the mutation: {self.status} {self.detail}")


def table(rows: Iterable[tuple[Mutation, Outcome]]) -> str:
    """One line a mutation: topic, what came of it, its name, and the case that caught it."""
    cells = [("topic", "outcome", "mutation", "by")]
    for mutation, outcome in rows:
        target = mutation.test.rpartition(":")[2]
        cells.append((mutation.topic, outcome.status, mutation.name, f"{target} {outcome.detail}"))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in cells
    )
