"""Outcomes as a table in Markdown, and their reasons counted."""

import collections
import re
from collections.abc import Iterable, Sequence

from tests.survey.outcome import STEPS, Outcome

_COLUMNS = ("model", *STEPS, "differs by", "on the CPU", "seconds", "reason")


def table(outcomes: Iterable[Outcome]) -> str:
    """One line for each model."""
    rows = [_COLUMNS, tuple("---" for _ in _COLUMNS)]
    rows += [_row(outcome) for outcome in outcomes if not outcome.absent]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(outcome: Outcome) -> tuple[str, ...]:
    steps = (
        "yes" if step in outcome.steps else "no" if step == outcome.failed_step else ""
        for step in STEPS
    )
    return (
        outcome.model,
        *steps,
        "" if outcome.error is None else f"{outcome.error:.0e}",
        "" if outcome.on_cpu is None else str(outcome.on_cpu),
        f"{sum(outcome.seconds.values()):.0f}",
        outcome.first_line().replace("|", "\\|"),
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many came how far, and the reasons, most frequent first."""
    present = [outcome for outcome in outcomes if not outcome.absent]
    lines = [_counts(outcomes, "models")]
    libraries = list(dict.fromkeys(outcome.library for outcome in present))
    if len(libraries) > 1:
        lines += [
            "* " + _counts([o for o in outcomes if o.library == library], f"of {library}")
            for library in libraries
        ]
    if left := [outcome for outcome in present if outcome.on_cpu]:
        calls = sum(outcome.on_cpu or 0 for outcome in left)
        lines.append(f"* {len(left)} leave {calls} calls of operators to the CPU")
    reasons: collections.defaultdict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for outcome in present:
        if outcome.failed_step:
            reasons[outcome.failed_step, _kind(outcome.first_line())].append(outcome.model)
    for (step, reason), models in sorted(
        reasons.items(), key=lambda item: (-STEPS.index(item[0][0]), -len(item[1]))
    ):
        lines.append(f"* {len(models)} do not pass `{step}`: {reason} ({', '.join(models)})")
    return "\n".join(lines)


def _counts(outcomes: Sequence[Outcome], what: str) -> str:
    present = [outcome for outcome in outcomes if not outcome.absent]
    exported = [outcome for outcome in present if "exports" in outcome.steps]
    good = [outcome for outcome in exported if not outcome.failed_step]
    return (
        f"{len(outcomes)} {what}, {len(outcomes) - len(present)} of them absent; of "
        f"{len(present)}, {len(exported)} export; of these {len(good)} match"
        + (f", {len(good) / len(exported):.1%}" if exported else "")
    )


def _kind(reason: str) -> str:
    """The reason without what differs from model to model."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?", "N", reason)[:200]
