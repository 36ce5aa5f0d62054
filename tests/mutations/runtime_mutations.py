"""Mutations of `runtime/` and `tools/runner/`."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_SESSION = "runtime/executor/session.cpp"
_TEST_SESSION = "//runtime/executor/tests:test_session"

RUNTIME_MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        topic="methods",
        name="methods of one session have state of their own",
        file=_SESSION,
        before="const auto found = buffers_.find(std::string(name));\n"
        "  if (found != buffers_.end()) {\n    Buffer& buffer",
        after='const auto found = buffers_.find("");\n'
        "  if (found != buffers_.end()) {\n    Buffer& buffer",
        test=_TEST_SESSION,
    ),
    Mutation(
        topic="methods",
        name="methods of one session may begin with different state",
        file=_SESSION,
        before="PTERON_CHECK_OR_RETURN(equal(buffer.initial, initial), Error::InvalidProgram,",
        after="PTERON_CHECK_OR_RETURN(buffer.initial.size() == initial.size() || true,\n"
        "                           Error::InvalidProgram,",
        test=_TEST_SESSION,
    ),
)
