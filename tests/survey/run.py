r"""Which models of `transformers` and other libraries lower, run and match, and why others do not.

  tools/bazel run //tests/survey -- --output=$HOME/survey --jobs=2
  tools/bazel run //tests/survey -- --output=$HOME/survey --models=llama,timm:*

With --device=cuda it runs where tools/gpu takes it, as its stage `survey`.

The output folder has one JSON file for each architecture and device, and a table of them all,
<device>.md. What is there is not run again: the same command goes on where the last one stopped,
and machines may share the work (--shard=0/4). The exit status is 0 once all have run, 75 if some
are left.
"""

import fnmatch
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tests.pool.pool import Pool
from tests.survey import libraries
from tests.survey.examine import examine, unfinished
from tests.survey.names import ARCHITECTURES
from tests.survey.outcome import path_of, read, write
from tests.survey.table import summary, table

_OUTPUT = flags.DEFINE_string("output", None, "Folder for results; kept, and read, between runs.")
_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "cuda"], "Where modules lie and are run.")
_MODELS = flags.DEFINE_list("models", [], "Names, or patterns of them; all if empty.")
_JOBS = flags.DEFINE_integer("jobs", 1, "Processes at a time.", 1)
_SECONDS = flags.DEFINE_float("seconds", 0, "Stop after so long; 0: no limit.", 0)
_LIMIT = flags.DEFINE_float("limit", 300, "The longest that one model may take, in seconds.", 1)
_SHARD = flags.DEFINE_string("shard", "0/1", "Which part of the models, of how many.")

_UNFINISHED = 75


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    if not _OUTPUT.value:
        raise app.UsageError("--output=FOLDER is needed: where results go")
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), _OUTPUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    shard, shards = map(int, _SHARD.value.split("/"))
    device = _DEVICE.value
    known = [*ARCHITECTURES, *libraries.names()]
    models = [
        name for asked in _MODELS.value or ["*"] for name in fnmatch.filter(known, asked) or [asked]
    ]

    def left_to_do() -> list[tuple[str, str]]:
        chosen = models[shard::shards]
        return [(name, device) for name in chosen if not path_of(folder, name, device).exists()]

    tasks = left_to_do()
    print(f"{len(tasks)} of {len(models)} models to run", flush=True)
    pool = Pool(examine, unfinished, jobs=_JOBS.value, limit=_LIMIT.value, fresh=True)
    deadline = time.monotonic() + (_SECONDS.value or 1e9)
    for outcome in pool.run(tasks, deadline):
        write(outcome, folder)
        seconds = sum(outcome.seconds.values())
        print(
            f"{outcome.model}: {outcome.failed_step or 'fine'}, {seconds:.0f} s"
            + (f": {outcome.first_line()}" if outcome.reason else ""),
            flush=True,
        )
    outcomes = read(folder, models, device)
    (folder / f"{device}.md").write_text(f"{summary(outcomes)}\n\n{table(outcomes)}\n")
    print(summary(outcomes))
    if tasks := left_to_do():
        print(f"{len(tasks)} models are left: run the same command again")
        sys.exit(_UNFINISHED)


if __name__ == "__main__":
    app.run(main)
