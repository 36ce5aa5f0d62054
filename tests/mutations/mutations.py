"""The list: each entry breaks one promise of lowering, and names the test that guards it."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MUTATIONS: tuple[Mutation, ...] = (
    # Final backends.
    Mutation(
        "a backend can be subclassed",
        "exir/backend/backend_details.py",
        "if base is not BackendDetails and issubclass(base, BackendDetails):",
        "if False:",
        "//exir/tests:test_backend_details",
    ),
    Mutation(
        "two backends of one name are taken",
        "exir/backend/backend_details.py",
        "if other is not None:",
        "if False:",
        "//exir/tests:test_backend_details",
    ),
    # View passes.
    Mutation(
        "a copy of written memory becomes a view",
        "backends/aoti/passes/replace_view_copy_with_view.py",
        "if sets.is_written(source) or sets.is_written(node):",
        "if sets.is_written(source):",
        "//backends/aoti/passes/tests:test_replace_view_copy_with_view",
    ),
    Mutation(
        "a copy whose source is written becomes a view",
        "backends/aoti/passes/replace_view_copy_with_view.py",
        "if sets.is_written(source) or sets.is_written(node):",
        "if sets.is_written(node):",
        "//backends/aoti/passes/tests:test_replace_view_copy_with_view",
    ),
    Mutation(
        "an output may share memory with an input",
        "backends/aoti/passes/replace_view_copy_with_view.py",
        "sets.is_from_outside(source) or sets.is_returned(source)",
        "sets.is_returned(source)",
        "//backends/aoti/passes/tests:test_replace_view_copy_with_view",
    ),
    Mutation(
        "out= arguments count as read only",
        "backends/aoti/passes/aliases.py",
        "            if argument.alias_info is not None and argument.alias_info.is_write:\n",
        "            if False:\n",
        "//backends/aoti/passes/tests:test_replace_view_copy_with_view",
    ),
    Mutation(
        "an output keeps the strides of the view",
        "backends/aoti/passes/replace_view_copy_with_view.py",
        'if node.op == "output":',
        'if node.op == "outputs":',
        "//backends/aoti/passes/tests:test_replace_view_copy_with_view",
    ),
    # Partitioner.
    Mutation(
        "branches of control flow get no tag",
        "backends/aoti/aoti_partitioner.py",
        'if argument.op == "get_attr":',
        "if False:",
        "//backends/aoti/tests:test_aoti_partitioner",
    ),
    Mutation(
        "unused constants stay outside",
        "backends/aoti/aoti_partitioner.py",
        "            _tag_unused_constants(exported_program, next(iter(tags)))\n",
        "",
        "//backends/aoti/tests:test_aoti_partitioner",
    ),
    Mutation(
        "constants that a partition uses stay outside",
        "backends/aoti/aoti_partitioner.py",
        "            tag_constant_data(exported_program)\n",
        "",
        "//backends/aoti/tests:test_aoti_partitioner",
    ),
    Mutation(
        "no warning for operators left out",
        "backends/aoti/aoti_partitioner.py",
        "        self._warn(exported_program, support)\n",
        "",
        "//backends/aoti/tests:test_aoti_partitioner",
    ),
    # Composability.
    Mutation(
        "delegate calls of an earlier partitioner are taken again",
        "exir/backend/utils.py",
        "        and not is_delegate_call(node)\n        and not (",
        "        and not (",
        "//backends/aoti/tests:test_aoti_partitioner",
    ),
    # State and memory.
    Mutation(
        "a reader of old state sees the new one",
        "exir/passes/resolve_mutations.py",
        "                _read_before(call, state, results.get(output))\n",
        "",
        "//exir/tests:test_state",
    ),
    Mutation(
        "tensors that live at the same time share memory",
        "exir/memory_planning.py",
        "return self.first <= other.last and other.first <= self.last",
        "return self.first < other.last and other.first < self.last",
        "//exir/tests:test_memory_planning",
    ),
    # Named data.
    Mutation(
        "one key can have two contents",
        "exir/_serialize/named_data_store.py",
        "if buffers[old.buffer_index] != blob:",
        "if False:",
        "//exir/tests:test_serialize",
    ),
    Mutation(
        "equal blobs are stored twice",
        "exir/_serialize/named_data_store.py",
        "index = self._index_by_content.get(blob)",
        "index = None",
        "//exir/tests:test_serialize",
    ),
    # Sessions.
    Mutation(
        "methods of one session have state of their own",
        "runtime/executor/session.cpp",
        "const auto found = buffers_.find(std::string(name));\n  if (found != buffers_.end()) {\n"
        "    Buffer& buffer",
        'const auto found = buffers_.find("");\n  if (found != buffers_.end()) {\n'
        "    Buffer& buffer",
        "//runtime/executor/tests:test_session",
    ),
)
