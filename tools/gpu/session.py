"""The stages of a bundle, one after the other; `run.py` starts it.

A stage that is done is not run again: delete its JSON file to repeat it.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.gpu import machine
from tools.gpu.stage import StageResult, read_result, run_stage
from tools.gpu.stages import STAGES

_OUTPUT = flags.DEFINE_string("output", None, "Folder for results; kept, and read, between runs.")
_STAGES = flags.DEFINE_list("stages", list(STAGES), "Which stages to run, in this order.")
_SECONDS = flags.DEFINE_float("stage_seconds", 480, "The longest one stage may take.", 1)
_TOTAL = flags.DEFINE_float(
    "total_seconds", 0, "Begin no stage after so long, and cut the last one short; 0: no limit."
)


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    if not _OUTPUT.value:
        raise app.UsageError("--output=FOLDER is needed: where results go")
    if unknown := [name for name in _STAGES.value if name not in STAGES]:
        raise app.UsageError(f"--stages: no {', '.join(unknown)}; there are {', '.join(STAGES)}")
    tree, output = Path(__file__).resolve().parents[2], Path(_OUTPUT.value).resolve()
    output.mkdir(parents=True, exist_ok=True)
    os.chdir(tree)
    os.environ.update(machine.environment(tree))
    begin = time.monotonic()
    results = []
    for name in _STAGES.value:
        stage = STAGES[name](tree, output)
        result = read_result(stage, output)
        left = _TOTAL.value - (time.monotonic() - begin) if _TOTAL.value else _SECONDS.value
        if not result.complete and left >= 1:
            print(f"== {name}: {len(stage.cases)} cases", flush=True)
            result = run_stage(stage, output, min(_SECONDS.value, left))
            report(result)
        results.append(result)
    print_summary(results)
    if any(result.total("failed") or not result.complete for result in results):
        sys.exit(1)


def report(result: StageResult) -> None:
    """Test properties and failures, with the end of their output."""
    for outcome in result.outcomes.values():
        for fact, value in outcome.facts.items():
            print(f"   {fact} = {value}", flush=True)
        if outcome.failed:
            print(f"-- {outcome.name}: {outcome.failed} failed\n{outcome.tail[-1500:]}", flush=True)


def print_summary(results: Sequence[StageResult]) -> None:
    """One line a stage."""
    print(f"{'stage':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for result in results:
        left = result.expected - len(result.outcomes)
        print(
            f"{result.stage:<12} {result.total('passed'):>7.0f} {result.total('failed'):>7.0f} "
            f"{result.total('skipped'):>8.0f} {result.total('seconds'):>8.0f}"
            + (f"  {left} cases not run" if left else "")
        )
