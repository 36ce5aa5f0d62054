"""Applies every mutation in turn and checks that its test fails.

  tools/bazel run //tests/mutations:run
  tools/bazel run //tests/mutations:run -- --only=slice

Nothing of yours changes. Python is mutated in a child of this process, as it is imported; other
files in a copy of the tree, which builds from the same disk cache. Each test is run first as it is:
one that fails anyway would prove nothing. A test that passes in spite of its mutation guards
nothing, and a mutation that does not build says nothing: the table shows both, and the command
fails.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

from tests.mutations import forked_test
from tests.mutations.mutated_tree import MutatedTree
from tests.mutations.mutation import Mutation
from tests.mutations.mutations import MUTATIONS, TOPICS
from tests.mutations.outcome import CAUGHT, Outcome, table

_ONLY = flags.DEFINE_string("only", "", "Only mutations whose name contains this.")
_TOPIC = flags.DEFINE_enum("topic", None, TOPICS, "Only mutations of this topic.")
_JOBS = flags.DEFINE_integer("jobs", 0, "Bazel's --jobs; 0 leaves it to Bazel.", lower_bound=0)
_TIMEOUT = flags.DEFINE_integer("timeout", 600, "Of one test, in seconds.", lower_bound=1)


def main(argv: list[str]) -> None:
    del argv
    source = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    chosen = [
        mutation
        for mutation in MUTATIONS
        if _ONLY.value in mutation.name and _TOPIC.value in (None, mutation.topic)
    ]
    if not chosen:
        sys.exit(f"no mutation is named like {_ONLY.value!r}")
    if problems := [problem for m in chosen for problem in m.problems(source)]:
        sys.exit("\n".join(problems))
    outcomes: dict[Mutation, Outcome] = {}

    def note(mutation: Mutation, outcome: Outcome) -> None:
        outcomes[mutation] = outcome
        count = f"[{len(outcomes)}/{len(chosen)}]"
        print(f"{count} {outcome.status:9} {mutation.name}", flush=True)

    forked_test.warm_up()
    try_forked([m for m in chosen if m.is_python], note)
    try_built([m for m in chosen if not m.is_python], source, note)
    rows = [(mutation, outcomes[mutation]) for mutation in chosen]
    print(f"\n{table(rows)}\n")
    failed = [mutation.name for mutation, outcome in rows if outcome.status != CAUGHT]
    print(f"{len(rows) - len(failed)} of {len(rows)} mutations caught")
    if failed:
        sys.exit("not caught: " + "; ".join(failed))


def try_forked(mutations: Sequence[Mutation], note: Callable[[Mutation, Outcome], None]) -> None:
    """Mutations of Python."""

    @functools.cache
    def unchanged(test: str, case: str) -> Outcome:
        return forked_test.run(test, case, None, _TIMEOUT.value)

    for mutation in mutations:
        before = unchanged(mutation.test, mutation.case)
        if before.status == "passed":
            found = forked_test.run(mutation.test, mutation.case, mutation, _TIMEOUT.value)
            note(mutation, found.of_mutation())
        else:
            note(mutation, before.without_mutation())


def try_built(
    mutations: Sequence[Mutation], source: pathlib.Path, note: Callable[[Mutation, Outcome], None]
) -> None:
    """Mutations of what is built before a test can see it."""
    if not mutations:
        return
    options = [f"--test_timeout={_TIMEOUT.value}"]
    options += [f"--jobs={_JOBS.value}"] if _JOBS.value else []
    with MutatedTree(source, options) as tree:
        for mutation in mutations:
            outcome = tree.run(mutation.test, mutation.case)
            if outcome.status != "passed":
                note(mutation, outcome.without_mutation())
                continue
            with tree.mutated(mutation):
                outcome = tree.run(mutation.test, mutation.case)
            note(mutation, outcome.of_mutation())


if __name__ == "__main__":
    app.run(main)
