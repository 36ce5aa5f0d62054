"""The list: each entry breaks one behaviour, and names the test that must fail."""

from __future__ import annotations

from tests.mutations.backend_mutations import BACKEND_MUTATIONS
from tests.mutations.exir_mutations import EXIR_MUTATIONS
from tests.mutations.mutation import Mutation
from tests.mutations.runtime_mutations import RUNTIME_MUTATIONS

TOPICS = (
    "final backends",
    "view passes",
    "methods",
    "compile context",
    "partitioner",
    "composability",
    "stacking",
    "unsupported operators",
    "explain",
    "memory",
)
"""What lowering promises; each has two entries at least."""

MUTATIONS: tuple[Mutation, ...] = tuple(
    sorted(
        (*EXIR_MUTATIONS, *BACKEND_MUTATIONS, *RUNTIME_MUTATIONS),
        key=lambda mutation: TOPICS.index(mutation.topic),
    )
)
