"""Repairs of passes over graphs."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def no_write_under_a_reader() -> Iterator[None]:
    """An operator does not write an argument in place whose memory another argument of it reads.

        index_put(x, indices, expand(slice(x)), accumulate=True)

    Inductor makes such a call work in place if nobody needs `x` afterwards, and forgets the call
    itself: it would read what it has just written (issue 197829 and others).
    """
    with _not_in_place(lambda graph, node, written: _reads_what_it_writes(node, written)):
        yield


@contextlib.contextmanager
def no_write_that_is_overwritten() -> Iterator[None]:
    """An operator does not write an input in place that is overwritten before its result is used.

        y = slice_scatter(x, source); x.zero_(); return y

    Inductor takes any assignment to the input as leave to write it (issue 198094).
    """

    def is_overwritten(graph: torch.fx.Graph, node: torch.fx.Node, written: Any) -> bool:
        views = _views(node)
        used = False
        for user in reversed(graph.nodes):
            if user.target is torch.ops.aten.copy_.default:
                target, source = user.args[:2]
                if used and source not in views and target in (node.args[i] for i in written):
                    return True
            used = used or not views.isdisjoint(user.all_input_nodes)
        return False

    with _not_in_place(is_overwritten):
        yield


def _views(node: torch.fx.Node) -> set[torch.fx.Node]:
    """`node` and what are views of it."""
    from torch.fx.passes.reinplace import _is_view_op

    found = {node}
    for user in node.users:
        if user.op == "call_function" and _is_view_op(user.target) and user.args[0] is node:
            found |= _views(user)
    return found


@contextlib.contextmanager
def _not_in_place(
    is_wrong: Callable[[torch.fx.Graph, torch.fx.Node, tuple[int, ...]], bool],
) -> Iterator[None]:
    """Inductor's pass does not see the calls for which `is_wrong` holds, given what they write."""
    from torch._inductor.fx_passes import reinplace

    core = reinplace.reinplace_inplaceable_ops_core

    @functools.wraps(core)
    def guarded(graph: torch.fx.Graph) -> None:
        hidden = {}
        for node in graph.nodes:
            op = reinplace.inplaceable_ops.get(node.target) if node.op == "call_function" else None
            if op is not None and is_wrong(graph, node, _written(op)):
                hidden[node] = node.target
        for node in hidden:
            node.target = _hidden
        try:
            core(graph)
        finally:
            for node, target in hidden.items():
                node.target = target

    with patched(reinplace, "reinplace_inplaceable_ops_core", guarded):
        yield


def _hidden(*args: Any, **kwargs: Any) -> None:
    """Stands for an operator that the pass is not to see."""
    raise AssertionError("only a name")


def _written(op: Any) -> tuple[int, ...]:
    """Positions of the arguments that the in-place form writes."""
    many = getattr(op, "mutated_args", None)
    return tuple(many) if many is not None else (op.mutated_arg,)


def _reads_what_it_writes(node: torch.fx.Node, written: Sequence[int]) -> bool:
    from torch._inductor.fx_utils import get_node_storage

    others = [value for index, value in enumerate(node.args) if index not in written]
    read: list[torch.fx.Node] = []
    torch.fx.map_arg((others, node.kwargs), read.append)
    storages = {get_node_storage(value) for value in read} - {None}
    arguments: Sequence[Any] = node.args
    return any(get_node_storage(arguments[index]) in storages for index in written)


@contextlib.contextmanager
def loops_from_constants() -> Iterator[None]:
    """`while_loop` may begin with numbers, such as a counter's 0, after constants were folded."""
    from torch._inductor import ir

    create = ir.WhileLoop.__dict__["create"].__func__

    def begin(
        cls: Any, cond_fn: Any, body_fn: Any, carried: Sequence[Any], *args: Any, **kwargs: Any
    ) -> Any:
        buffers = [cls.realize_input(v) if isinstance(v, ir.Constant) else v for v in carried]
        return create(cls, cond_fn, body_fn, buffers, *args, **kwargs)

    with patched(ir.WhileLoop, "create", classmethod(begin)):
        yield


@contextlib.contextmanager
def operands_of_branches_as_traced() -> Iterator[None]:
    """What `cond` hands to its branches has the strides that they were traced with.

    Inductor may compute an operand in another layout, behind a convolution in channels last, say;
    the branches read it as contiguous all the same. (It sees to that for `while_loop`.) Tested by
    `tests/random:test_random_modules`.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    create = ir.Conditional.__dict__["create"].__func__

    def laid_out(operand: Any, traced: torch.fx.Node) -> Any:
        value = traced.meta["val"]
        if not isinstance(value, torch.Tensor):
            return operand
        return ir.ExternKernel.require_exact_strides(operand, value.stride(), allow_padding=False)

    def branch(
        cls: Any, predicate: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any]
    ) -> Any:
        nodes: Any = V.graph.current_node.args[-1]
        operands = [laid_out(*pair) for pair in zip(operands, nodes, strict=True)]
        return create(cls, predicate, true_fn, false_fn, operands)

    with patched(ir.Conditional, "create", classmethod(branch)):
        yield


@contextlib.contextmanager
def cumsum_of_the_dtype_asked_for() -> Iterator[None]:
    """The running sum of a constant has the dtype that the call names (issue 189518).

    Inductor writes it as a multiple of an index, in the dtype of the constant.
    """
    from torch._inductor.fx_passes import post_grad

    with checked(post_grad.pass_patterns, "pointless_cumsum_replacement", _sums_in_its_dtype):
        yield


def _sums_in_its_dtype(match: Any) -> bool:
    exact = isinstance(match.kwargs["fill_value"], int) or match.kwargs["dtype"].is_floating_point
    return exact and match.output_node().kwargs.get("dtype") is None


@contextlib.contextmanager
def offsets_from_the_base() -> Iterator[None]:
    """`as_strided` of a view counts from where the memory begins that is viewed (issue 175325).

        as_strided((x * 2)[2:], [2, 16], [16, 1], 16)

    Inductor gives the view memory of its own, and counts from there.
    """
    from torch._inductor import compile_fx

    passes = compile_fx.post_grad_passes

    @functools.wraps(passes)
    def of_bases(module: torch.fx.GraphModule, *args: Any, **more: Any) -> Any:
        for call in module.graph.find_nodes(
            op="call_function", target=torch.ops.aten.as_strided.default
        ):
            view, size, stride, *offset = call.args
            base = _base(view)
            if base is not view and base.op == "call_function":
                offset = offset or [view.meta["val"].storage_offset()]
                call.args = base, size, stride, *offset
        return passes(module, *args, **more)

    with patched(compile_fx, "post_grad_passes", of_bases):
        yield


def _base(view: torch.fx.Node) -> torch.fx.Node:
    """What `view` is a view of, at the end."""
    from torch.fx.passes.reinplace import _is_view_op

    while view.op == "call_function" and _is_view_op(view.target):
        source = view.args[0]
        assert isinstance(source, torch.fx.Node)
        view = source
    return view


@contextlib.contextmanager
def sums_of_products_apart() -> Iterator[None]:
    """`a @ b + c @ d` are two products and a sum on the CPU; for one call there is no function."""
    from torch._inductor.fx_passes import post_grad

    def is_elsewhere(match: Any) -> bool:
        return match.output_node().meta["val"].device.type != "cpu" and allowed(match)

    allowed = post_grad.is_valid_mm_plus_mm
    with checked(post_grad.pass_patterns, "mm_plus_mm", is_elsewhere):
        yield


@contextlib.contextmanager
def checked(passes: Sequence[Any], handler: str, check: Callable[[Any], bool]) -> Iterator[None]:
    """The pattern that `handler` rewrites is rewritten where `check` holds."""
    with contextlib.ExitStack() as stack:
        entries = (entry for each in passes for many in each.patterns.values() for entry in many)
        for entry in entries:
            if getattr(getattr(entry, "handler", None), "__name__", "") == handler:
                stack.enter_context(patched(entry, "extra_check", check))
        yield
