"""Replaces `*_copy` operators by views where that is not observable.

    %y = slice_copy(%x, 0, 0, 4)    ==>    %y = slice(%x, 0, 0, 4)

Functional graphs have a copy for each view of the model, and Inductor does not undo it. A copy
becomes a view unless

* a node mutates either, directly or through any chain of views, in-place operators or `out=`
  arguments;
* an output would then alias an input, a constant or another output: the caller may mutate any of
  them.

A copy is contiguous and a view is not, so users that depend on strides may need the copy's layout.
Metadata is propagated from the first view on. A contiguous clone is inserted where a `view` is no
longer valid, before `as_strided` and branches, and where the strides of an output would change. If
that does not restore the layout, the graph stays as it was.

Pairs of operators come from torch's registry; `view_of_copy` is the table.
"""

import contextlib
import functools
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.backends.aoti.passes.aliases import AliasSets

# Not strided views: lazy conjugation and negation, sparse components, nested tensors.
_NOT_STRIDED = frozenset(
    {
        "_conj_copy",
        "_neg_view_copy",
        "_indices_copy",
        "_values_copy",
        "indices_copy",
        "values_copy",
        "ccol_indices_copy",
        "col_indices_copy",
        "crow_indices_copy",
        "row_indices_copy",
        "lift_fresh_copy",
        "_fw_primal_copy",
        "_make_dual_copy",
        "_nested_view_from_buffer_copy",
        "_nested_view_from_jagged_copy",
        "_nested_get_values_copy",
        "_sparse_broadcast_to_copy",
        "_test_autograd_multiple_dispatch_view_copy",
    }
)
_READS_STORAGE = frozenset(
    {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default}
)


@functools.cache
def view_of_copy() -> Mapping[OpOverload, OpOverload]:
    """Each `*_copy` overload of ATen and its view overload."""
    aten = torch.ops.aten
    pairs: dict[OpOverload, OpOverload] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten" or not name.endswith("_copy") or name in _NOT_STRIDED:
            continue
        overload = schema.overload_name or "default"
        view = getattr(getattr(aten, name.removesuffix("_copy"), None), overload, None)
        if view is not None and not any(a.is_out for a in schema.arguments):
            pairs[getattr(getattr(aten, name), overload)] = view
    return dict(sorted(pairs.items(), key=lambda pair: str(pair[0])))


class ReplaceViewCopyWithViewPass(PassBase):
    """See the module's docstring."""

    #: Copies to look at; None stands for all of `view_of_copy`.
    copies: frozenset[OpOverload] | None = None

    def call(self, graph_module: GraphModule) -> PassResult:
        graph = graph_module.graph
        wanted = view_of_copy().keys() if self.copies is None else self.copies
        copies = [n for n in graph.nodes if n.op == "call_function" and n.target in wanted]
        if not copies:
            return PassResult(graph_module, False)
        change = _Change(graph)
        try:
            change.replace(copies)
            change.restore_layouts()
        except _CannotRestoreLayout:
            change.undo()
        graph_module.recompile()
        return PassResult(graph_module, change.is_made)


class ReplaceSliceCopyWithSlicePass(ReplaceViewCopyWithViewPass):
    """The same for `slice_copy` alone."""

    copies = frozenset({torch.ops.aten.slice_copy.Tensor})


class _CannotRestoreLayout(Exception):
    """A node goes by a layout that a contiguous clone does not have."""


class _Change:
    """One run of the pass over one graph, and how to take it back."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._targets: dict[Node, OpOverload] = {}
        self._values: dict[Node, Any] = {}
        self._clones: dict[Node, Node] = {}

    @property
    def is_made(self) -> bool:
        """Whether any copy is a view now."""
        return bool(self._targets)

    def undo(self) -> None:
        """The graph as it was."""
        for node, target in self._targets.items():
            node.target = target
        for node, value in self._values.items():
            node.meta["val"] = value
        for node, clone in self._clones.items():
            clone.replace_all_uses_with(node)
            self._graph.erase_node(clone)
        self._targets, self._values, self._clones = {}, {}, {}

    def replace(self, copies: list[Node]) -> None:
        """Turns those of `copies` into views that may be."""
        sets = AliasSets(self._graph)
        for node in copies:
            (source, *_) = node.args
            assert isinstance(source, Node)
            if sets.is_written(source) or sets.is_written(node):
                continue
            if sets.is_returned(node) and (
                sets.is_from_outside(source) or sets.is_returned(source)
            ):
                continue
            sets.unite(source, node)
            assert isinstance(node.target, OpOverload)
            self._targets[node] = node.target
            node.target = view_of_copy()[node.target]

    def restore_layouts(self) -> None:
        """Propagates new layouts, and inserts clones for users that depend on the old ones."""
        for node in list(self._graph.nodes):
            if node.op == "output":
                for result in node.all_input_nodes:
                    self._keep_layout(node, result)
            elif node in self._targets or self._has_changed_arguments(node):
                self._update(node)

    def _has_changed_arguments(self, node: Node) -> bool:
        return any(argument in self._values for argument in node.all_input_nodes)

    def _update(self, node: Node) -> None:
        if node.target in _READS_STORAGE or not _can_propagate(node):
            for argument in node.all_input_nodes:
                self._keep_layout(node, argument)
        value = _propagate(node)
        if value is None:
            for argument in node.all_input_nodes:
                self._keep_layout(node, argument)
            value = _propagate(node)
        if value is None and node in self._targets:
            node.target = self._targets.pop(node)  # view_copy copies where view would fail
            value = _propagate(node)
        if value is None:
            raise _CannotRestoreLayout
        if not _same_layout(node.meta["val"], value):
            self._values[node] = node.meta["val"]
            node.meta["val"] = value

    def _keep_layout(self, user: Node, argument: Node) -> None:
        """Replaces `argument` of `user` by a clone with the old layout."""
        before = self._values.get(argument)
        if before is None:
            return
        if not isinstance(before, torch.Tensor) or not _is_dense(before):
            raise _CannotRestoreLayout
        if argument not in self._clones:
            self._clones[argument] = self._clone(argument, before)
        user.replace_input_with(argument, self._clones[argument])

    def _clone(self, node: Node, before: torch.Tensor) -> Node:
        with self._graph.inserting_after(node):
            clone = self._graph.call_function(
                torch.ops.aten.clone.default,
                (node,),
                {"memory_format": torch.contiguous_format},
            )
        clone.meta = {**node.meta, "val": before}
        return clone


def _can_propagate(node: Node) -> bool:
    return isinstance(node.target, OpOverload) or node.target is operator.getitem


def _propagate(node: Node) -> Any:
    """The node's fake value for its arguments' current metadata; None if that is an error."""
    if not _can_propagate(node):
        return node.meta.get("val")
    target: Any = node.target
    args: Any
    kwargs: Any
    args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: n.meta["val"])
    try:
        if target is torch.ops.aten.view.default and _is_static(args[0]):
            _check_view(args[0], args[1])
    except RuntimeError:
        return None
    with contextlib.ExitStack() as stack:
        mode = detect_fake_mode([n.meta["val"] for n in node.all_input_nodes])
        if mode is not None:
            stack.enter_context(mode)
        try:
            return target(*args, **kwargs)
        except (RuntimeError, ValueError):
            return None


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in (*value.shape, *value.stride()))


def _check_view(value: torch.Tensor, shape: list[int]) -> None:
    """RuntimeError if memory cannot be viewed so. Fake tensors accept some layouts (with sizes of
    one) that real ones refuse; the meta device runs the real check."""
    torch.empty_strided(value.shape, value.stride(), device="meta").view(shape)


def _is_dense(value: torch.Tensor) -> bool:
    """Whether a contiguous clone has the same layout, down to the storage."""
    if not value.is_contiguous() or value.storage_offset() != 0:
        return False
    return value.untyped_storage().nbytes() == value.numel() * value.element_size()


def _same_layout(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return bool(
            left.stride() == right.stride() and left.storage_offset() == right.storage_offset()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return all(_same_layout(a, b) for a, b in zip(left, right, strict=True))
    return True
