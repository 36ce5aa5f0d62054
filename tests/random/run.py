r"""Lowers and runs random modules by the thousand, and counts what they met.

  tools/bazel run //tests/random -- --output=$HOME/random --seeds=0:2000 --jobs=16

With --device=cuda it runs where tools/gpu takes it, as its stage `random_cuda`.

Results are lines of JSON in the output folder. What is there is not run again: the same command
goes on where the last one stopped. Machines may share the seeds (--shard=0/4) and their files be
put into one folder. At the end stands what passed and failed, and how often each template was taken
and each function of the runtime imported. The exit status is 0 if nothing failed and all of them
were met, 75 if there are seeds left.
"""

import collections
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from absl import app, flags

from tests.random import coverage
from tests.random.configurations import configurations
from tests.random.group import Outcome
from tests.random.refused import is_refused
from tests.random.workers import Task, Workers

_OUTPUT = flags.DEFINE_string("output", None, "Folder for results; kept, and read, between runs.")
_SEEDS = flags.DEFINE_string("seeds", "0:100", "First seed and one past the last.")
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "cuda"], "Where modules are run.")
_CONFIGURATIONS = flags.DEFINE_list("configurations", [], "Names of them; all if empty.")
_JOBS = flags.DEFINE_integer("jobs", 1, "Processes at a time.", 1)
_TOGETHER = flags.DEFINE_integer("together", 10, "Modules in one program.", 1)
_SECONDS = flags.DEFINE_float("seconds", 0, "Stop after so long; 0: no limit.", 0)
_LIMIT = flags.DEFINE_float("limit", 600, "The longest that one program may take, in seconds.", 1)
_SHARD = flags.DEFINE_string("shard", "0/1", "Which part of the groups, of how many.")

_UNFINISHED = 75


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    if not _OUTPUT.value:
        raise app.UsageError("--output=FOLDER is needed: where results go")
    known = configurations(_DEVICE.value)
    names = _CONFIGURATIONS.value or list(known)
    if unknown := [name for name in names if name not in known]:
        raise app.UsageError(f"--configurations: no {unknown}; there are {', '.join(known)}")
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), _OUTPUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + (_SECONDS.value or 1e9)
    outcomes = read_outcomes(folder, _DEVICE.value)
    shard, shards = map(int, _SHARD.value.split("/"))
    groups = groups_of(range(*map(int, _SEEDS.value.split(":"))), _TOGETHER.value)

    def left_to_do() -> list[Task]:
        return left(groups, names, outcomes, _DEVICE.value)[shard::shards]

    tasks = left_to_do()
    print(f"{len(tasks)} programs to run, {len(outcomes)} done", flush=True)
    file = folder / f"{_DEVICE.value}-{shard}-{shards}.jsonl"
    with file.open("a") as lines:
        for outcome in Workers(_JOBS.value, _LIMIT.value).run(tasks, deadline):
            outcomes.append(outcome)
            lines.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
            lines.flush()
            for seed, error in outcome.errors.items():
                print(f"{outcome.configuration} {seed}: {error[:300]}", flush=True)
    failed = report(outcomes, names, _DEVICE.value)
    if tasks := left_to_do():
        print(f"{len(tasks)} programs are left: run the same command again")
        sys.exit(_UNFINISHED)
    sys.exit(1 if failed else 0)


def read_outcomes(folder: Path, device: str) -> list[Outcome]:
    """What earlier runs left; a line that was cut off counts for nothing."""
    outcomes = []
    for path in sorted(folder.glob(f"{device}-*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                outcome = Outcome(**json.loads(line))
            except ValueError:
                continue
            outcome.errors = {int(seed): error for seed, error in outcome.errors.items()}
            outcome.families = {int(seed): names for seed, names in outcome.families.items()}
            outcomes.append(outcome)
    return outcomes


def groups_of(seeds: range, size: int) -> list[range]:
    """The seeds, so many at a time."""
    return [seeds[i : i + size] for i in range(0, len(seeds), size)]


def left(
    groups: Iterable[range], names: Iterable[str], outcomes: Iterable[Outcome], device: str
) -> list[Task]:
    """For each group and configuration, the seeds that have no outcome."""
    done = {(outcome.configuration, seed) for outcome in outcomes for seed in outcome.seeds}
    tasks = [
        (device, name, tuple(seed for seed in group if (name, seed) not in done))
        for group in groups
        for name in names
    ]
    return [task for task in tasks if task[2]]


def report(outcomes: Iterable[Outcome], names: Sequence[str], device: str) -> bool:
    """Prints the tables; whether something failed or was never met."""
    outcomes = [outcome for outcome in outcomes if outcome.configuration in names]
    print(
        f"\n{'configuration':<22} {'passed':>7} {'failed':>7} {'refused':>8} {'seconds each':>13}"
    )
    failed: list[tuple[str, int, str, list[str]]] = []
    for name in names:
        of_name = [outcome for outcome in outcomes if outcome.configuration == name]
        seeds = sum(len(outcome.seeds) for outcome in of_name)
        errors = [
            (name, seed, error, outcome.families.get(seed, []))
            for outcome in of_name
            for seed, error in outcome.errors.items()
        ]
        wrong = [each for each in errors if not is_refused(each[2])]
        seconds = sum(sum(outcome.seconds.values()) for outcome in of_name)
        print(
            f"{name:<22} {seeds - len(errors):>7} {len(wrong):>7} {len(errors) - len(wrong):>8} "
            f"{seconds / max(seeds, 1):>13.2f}"
        )
        failed += wrong
    for name, seed, error, families in failed:
        print(f"\n{name} {seed} ({', '.join(families)}): {error}")
    for message, count in collections.Counter(
        f"{outcome.configuration}: {message}"
        for outcome in outcomes
        for message in outcome.warnings
    ).items():
        print(f"\n{count} programs: {message}")
    templates: collections.Counter[str] = collections.Counter()
    shims: collections.Counter[str] = collections.Counter()
    for outcome in outcomes:
        templates.update(outcome.templates)
        shims.update(outcome.shims)
    for name in coverage.templates(device):
        templates.setdefault(name, 0)
    for name in coverage.shims(device):
        shims.setdefault(name, 0)
    print("\ntemplates taken")
    print(_counts(templates))
    print("\nprograms that import a function of the runtime")
    print(_counts(shims))
    never = [name for counts in (templates, shims) for name, n in counts.items() if n == 0]
    if never:
        print(f"\nnever met: {', '.join(sorted(never))}")
    if met_all_the_same := sorted(name for name in coverage.unreachable(device) if shims[name]):
        print(f"\nmet, though coverage.py says that they cannot be: {', '.join(met_all_the_same)}")
    return bool(failed or never)


def _counts(counts: collections.Counter[str]) -> str:
    return "\n".join(f"{n:>8}  {name}" for name, n in sorted(counts.items(), key=lambda c: c[0]))


if __name__ == "__main__":
    app.run(main)
