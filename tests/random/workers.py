"""Groups of random modules in processes of their own.

The modules of a group that fails, in whatever way, are run one by one, so that those that fail are
known; likewise where lowering had to give up templates for the whole group, which it warns of.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.pool.pool import Pool
from tests.random.configurations import configurations
from tests.random.group import Outcome, run_group

Task = tuple[str, str, tuple[int, ...]]
"""A device, the name of a configuration, and the seeds of a group."""


def run_task(task: Task, path: Path | None = None) -> Outcome:
    """Runs a group in this process; what fails as a whole fails for each of its seeds.

    The program is at `path` afterwards, if there is one.
    """
    device, name, seeds = task
    with tempfile.TemporaryDirectory(prefix="pteron-random-") as folder:
        path = path or Path(folder, "random.pte")
        try:
            return run_group(configurations(device)[name], seeds, path)
        except Exception as error:
            return _failed(task, f"{type(error).__name__}: {error}")


def one_by_one(task: Task) -> list[Task]:
    """The members of a group as groups."""
    device, name, seeds = task
    return [(device, name, (seed,)) for seed in seeds]


def with_members(whole: Outcome, members: Sequence[Outcome]) -> Outcome:
    """What came of a group that failed, once its members were run one by one.

    A member that fails only among the others is still a failure.
    """
    errors: dict[int, str] = {}
    whole.warnings = [f"{m.seeds[0]}: {text}" for m in members for text in m.warnings]
    for member in members:
        (seed,) = member.seeds
        whole.families |= member.families
        for name, count in member.templates.items():
            whole.templates[name] = whole.templates.get(name, 0) + count
        whole.shims = sorted({*whole.shims, *member.shims})
        if error := member.errors.get(seed, ""):
            errors[seed] = error
    if not errors:
        errors = {seed: f"only among {whole.seeds}: {e}" for seed, e in whole.errors.items()}
    whole.errors = errors
    return whole


def _failed(task: Task, error: str) -> Outcome:
    _, name, seeds = task
    return Outcome(name, list(seeds), errors=dict.fromkeys(seeds, error))


class Workers(Pool[Task, Outcome]):
    """`jobs` processes, each of which may take `limit` seconds for a group."""

    def __init__(self, jobs: int, limit: float) -> None:
        super().__init__(run_task, _failed, jobs=jobs, limit=limit)

    def follow(self, task: Task, result: Outcome, run: Callable[[Task], Outcome]) -> Outcome:
        if (result.errors or result.warnings) and len(task[2]) > 1:
            return with_members(result, [run(member) for member in one_by_one(task)])
        return result
