"""Fixes of Inductor's FX passes and higher-order operators, and passes that are left out."""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

from pteron.backends.aoti.inductor.patches import Context, patched, repair, together, wrapped

PLACES = (
    "torch._inductor.ir.Switch: create; torch._inductor.ir.Conditional: create; "
    "torch._inductor.fx_passes.post_grad: pointless_cumsum_replacement mm_plus_mm"
)


@repair()
def fix_reinplace_of_overlapping_reads() -> Context:
    """A call is not reinplaced if another argument of it aliases the one that it would mutate.

        index_put(x, indices, expand(slice(x)), accumulate=True)

    Inductor reinplaces a call if `x` has no later use, and overlooks uses by the call itself, which
    would read what it has just written (issue 197829 and others).
    """
    from torch._inductor.fx_utils import get_node_storage

    def reads_what_it_writes(graph: Any, node: torch.fx.Node, written: tuple[int, ...]) -> bool:
        others = [value for index, value in enumerate(node.args) if index not in written]
        read: list[torch.fx.Node] = []
        torch.fx.map_arg((others, node.kwargs), read.append)
        storages = {get_node_storage(value) for value in read} - {None}
        arguments: Sequence[Any] = node.args
        return any(get_node_storage(arguments[index]) in storages for index in written)

    return _not_reinplaced(reads_what_it_writes)


@repair()
def fix_reinplace_before_overwrite() -> Context:
    """A call is not reinplaced if the input is overwritten before the call's result is used.

        y = slice_scatter(x, source); x.zero_(); return y

    Inductor takes any `copy_` to the input as permission to mutate it (issue 198094).
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

    return _not_reinplaced(is_overwritten)


def _views(node: torch.fx.Node) -> set[torch.fx.Node]:
    """`node` and all views of it."""
    from torch.fx.passes.reinplace import _is_view_op

    found = {node}
    for user in node.users:
        if user.op == "call_function" and _is_view_op(user.target) and user.args[0] is node:
            found |= _views(user)
    return found


def _not_reinplaced(
    is_wrong: Callable[[torch.fx.Graph, torch.fx.Node, tuple[int, ...]], bool],
) -> Context:
    """Hides calls from Inductor's reinplacing pass for which `is_wrong` holds, given the arguments
    that they would mutate."""
    from torch._inductor.fx_passes import reinplace

    def guarded(core: Callable[[Any], None], graph: torch.fx.Graph) -> None:
        wrong = []
        for node in graph.nodes:
            op = reinplace.inplaceable_ops.get(node.target) if node.op == "call_function" else None
            if op is not None and is_wrong(graph, node, op.mutated_args):
                wrong.append(node)
        with hidden(wrong):
            core(graph)

    return wrapped(reinplace, "reinplace_inplaceable_ops_core", guarded)


@contextlib.contextmanager
def hidden(calls: Iterable[torch.fx.Node]) -> Iterator[None]:
    """Inside, passes do not recognise what `calls` call; they can still run it."""
    targets: dict[torch.fx.Node, Any] = {call: call.target for call in calls}
    for call, target in targets.items():
        call.target = _hidden(target)
    try:
        yield
    finally:
        for call, target in targets.items():
            call.target = target


def _hidden(target: Callable[..., Any]) -> Callable[..., Any]:
    def call_hidden(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return call_hidden


@repair()
def realize_constant_while_loop_inputs() -> Context:
    """Carried inputs of `while_loop` may be constants, as a counter's 0 after constant folding."""
    from torch._inductor import ir

    def create_realized(create: Any, cls: Any, *args: Any, **more: Any) -> Any:
        *functions, carried = args[:3]
        buffers = [cls.realize_input(v) if isinstance(v, ir.Constant) else v for v in carried]
        return create(cls, *functions, buffers, *args[3:], **more)

    return wrapped(ir.WhileLoop, "create", create_realized)


@repair()
def require_traced_cond_operand_strides() -> Context:
    """Operands of `cond` have the strides that its branches were traced with.

    Inductor may choose another layout for an operand, channels last after a convolution, say; the
    branches still read it with the traced strides. (`while_loop` requires them.) Tested by
    `tests/random:test_random_modules`.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    kind: Any = getattr(ir, "Switch" if hasattr(ir, "Switch") else "Conditional")  # before 2.14

    def create_with_strides(create: Any, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(create).bind(*args, **kwargs)
        nodes: Any = V.graph.current_node.args[-1]
        operands = zip(bound.arguments["operands"], nodes, strict=True)
        bound.arguments["operands"] = [_with_traced_strides(*pair) for pair in operands]
        return create(*bound.args, **bound.kwargs)

    return wrapped(kind, "create", create_with_strides)


@repair("2.11", "2.12", "2.13")
def keep_traced_strides_of_complex_views() -> Context:
    """`view_as_complex` reads pairs as they were traced, not a contiguous copy.

    Else a result that is returned, with the traced strides, is copied again, and Triton has no
    complex numbers.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import V

    view = torch.ops.aten.view_as_complex.default
    fall_back = lowering.lowerings[view]

    def lower(copied: Any) -> Any:
        pairs: Any = V.graph.current_node.args[0]
        return fall_back(_with_traced_strides(V.graph.env[pairs], pairs))

    return mock.patch.dict(lowering.lowerings, {view: lower})


def _with_traced_strides(operand: Any, traced: Any) -> Any:
    from torch._inductor import ir

    value = traced.meta["val"] if isinstance(traced, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return operand
    return ir.ExternKernel.require_exact_strides(operand, value.stride(), allow_padding=False)


@repair("2.11", "2.12", "2.13")
def fix_cumsum_of_constant_dtype() -> Context:
    """`cumsum` of a constant has the dtype that the call asks for (issue 189518).

    Inductor rewrites it as a multiple of an index, in the dtype of the constant.
    """
    from torch._inductor.fx_passes import post_grad

    def has_input_dtype(match: Any) -> bool:
        fill, dtype = match.kwargs["fill_value"], match.kwargs["dtype"]
        is_exact = isinstance(fill, int) or dtype.is_floating_point
        return is_exact and match.output_node().kwargs.get("dtype") is None

    return extra_check(post_grad.pass_patterns, "pointless_cumsum_replacement", has_input_dtype)


@repair()
def fix_as_strided_of_view() -> Context:
    """The storage offset of `as_strided` is relative to the base of a view (issue 175325).

        as_strided((x * 2)[2:], [2, 16], [16, 1], 16)

    Inductor materializes the view, and takes the offset relative to that.
    """
    from torch._inductor import compile_fx

    def of_bases(passes: Any, module: torch.fx.GraphModule, *args: Any, **more: Any) -> Any:
        as_strided = torch.ops.aten.as_strided.default
        for call in module.graph.find_nodes(op="call_function", target=as_strided):
            view, size, stride, *offset = call.args
            base = _base(view)
            if base is not view and base.op == "call_function":
                offset = offset or [view.meta["val"].storage_offset()]
                call.args = base, size, stride, *offset
        return passes(module, *args, **more)

    return wrapped(compile_fx, "post_grad_passes", of_bases)


def _base(view: torch.fx.Node) -> torch.fx.Node:
    """The base of a view; any other node itself."""
    from torch.fx.passes.reinplace import _is_view_op

    while view.op == "call_function" and _is_view_op(view.target):
        source = view.args[0]
        assert isinstance(source, torch.fx.Node)
        view = source
    return view


@repair()
def disable_mm_plus_mm_on_cpu() -> Context:
    """`a @ b + c @ d` stays two matmuls on the CPU, which has no mm_plus_mm."""
    from torch._inductor.fx_passes import post_grad

    def is_elsewhere(match: Any) -> bool:
        return bool(match.output_node().meta["val"].device.type != "cpu")

    return extra_check(post_grad.pass_patterns, "mm_plus_mm", is_elsewhere)


def extra_check(passes: Sequence[Any], handler: str, check: Callable[[Any], bool]) -> Context:
    """The pattern whose replacement is `handler` also needs `check` to match."""

    def both(own: Callable[[Any], bool], match: Any) -> bool:
        return own(match) and check(match)

    entries = (entry for each in passes for many in each.patterns.values() for entry in many)
    found = (x for x in entries if getattr(getattr(x, "handler", 0), "__name__", "") == handler)
    return together(*(wrapped(entry, "extra_check", both) for entry in found))


def disable_patterns_of(modules: frozenset[str]) -> Context:
    """Pattern-matcher passes skip entries whose functions are defined in `modules`."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    def apply_others(apply: Any, self: PatternMatcherPass, *args: Any, **kwargs: Any) -> Any:
        kept = type(self.patterns)(list)
        for key, entries in self.patterns.items():
            if others := [entry for entry in entries if modules.isdisjoint(_origins(entry))]:
                kept[key] = others
        with patched(self, "patterns", kept):
            return apply(self, *args, **kwargs)

    return wrapped(PatternMatcherPass, "apply", apply_others)


def _origins(entry: Any) -> set[str]:
    """Modules of the functions that `entry` calls, and of those that they were made with."""
    functions = [getattr(entry, name, None) for name in ("handler", "extra_check")]
    functions = [getattr(function, "func", function) for function in functions]  # of a partial
    cells = (
        cell for function in functions for cell in getattr(function, "__closure__", None) or ()
    )
    return {getattr(f, "__module__", "") for f in (*functions, *(c.cell_contents for c in cells))}


_BYTES = (torch.int8, torch.uint8)
#: Elements below which a float32 weight is no loss.
_FEW = 1 << 12


def keep_dequantization_unfolded() -> Context:
    """Dequantization of bytes is not constant-folded, which would take two or four times the
    memory. (Inductor makes that exception for bfloat16.)"""
    from torch._inductor.constant_folding import ConstantFolder

    def is_kept(is_impure: Callable[..., bool], folder: Any, node: torch.fx.Node) -> bool:
        return _dequantizes(node) or is_impure(folder, node)

    return wrapped(ConstantFolder, "is_impure", is_kept)


def _dequantizes(node: torch.fx.Node) -> bool:
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    source, dtype = node.args
    value = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in _BYTES
        and isinstance(dtype, torch.dtype)
        and dtype.is_floating_point
        and value.numel() >= _FEW
    )
