"""Mistakes of Inductor that change results or stop a lowering, put right while we generate code.

Each has a test in `tests/test_repairs.py` that fails without it; one that a release has cured costs
nothing and can go.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from backends.aoti.inductor.release import release
from backends.aoti.inductor.replaced import replaced


@contextlib.contextmanager
def repairs() -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_write_under_a_reader())
        stack.enter_context(loops_from_constants())
        stack.enter_context(arrays_by_their_writer())
        stack.enter_context(weights_from_their_offset())
        stack.enter_context(factors_of_their_own())
        stack.enter_context(transposed_convolutions_unfolded())
        yield


@contextlib.contextmanager
def no_write_under_a_reader() -> Iterator[None]:
    """An operator does not write an argument in place whose memory another argument of it reads.

        index_put(x, indices, expand(slice(x)), accumulate=True)

    Inductor makes such a call work in place if nobody needs `x` afterwards, and forgets the call
    itself: it would read what it has just written.
    """
    from torch._inductor.fx_passes import reinplace

    core = reinplace.reinplace_inplaceable_ops_core

    @functools.wraps(core)
    def guarded(graph: torch.fx.Graph) -> None:
        hidden = {}
        for node in graph.nodes:
            op = reinplace.inplaceable_ops.get(node.target) if node.op == "call_function" else None
            if op is not None and _reads_what_it_writes(node, _written(op)):
                hidden[node], node.target = node.target, _hidden
        try:
            core(graph)
        finally:
            for node, target in hidden.items():
                node.target = target

    with replaced(reinplace, "reinplace_inplaceable_ops_core", guarded):
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
    return any(get_node_storage(node.args[index]) in storages for index in written)


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

    with replaced(ir.WhileLoop, "create", classmethod(begin)):
        yield


@contextlib.contextmanager
def arrays_by_their_writer() -> Iterator[None]:
    """An array of sizes is declared once for each place in the code that is written to.

    torch 2.11 knows the place by the identity of a bound method, which the next one made may have
    again: whether a declaration is found was left to chance, and code differed from run to run.
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    declare = getattr(CppWrapperCpu, "_codegen_int_array_var_impl", None)
    if release() != "2.11" or declare is None:
        yield
        return

    def find(
        wrapper: Any,
        int_array: str,
        writeline: Any,
        known_statically: bool = False,
        graph: Any = None,
    ) -> str:
        writer = getattr(writeline, "__self__", writeline)
        known = wrapper.__dict__.setdefault("_pteron_int_arrays", {})
        key = (int_array, id(writer), known_statically, id(graph))
        if key not in known:  # with what the numbers belong to, which thereby lives
            known[key] = writer, graph, declare(wrapper, int_array, writeline, known_statically)
        return known[key][2]

    with replaced(CppWrapperCpu, "codegen_int_array_var", find):
        yield


@contextlib.contextmanager
def weights_from_their_offset() -> Iterator[None]:
    """A product packs a constant that is a view from where the view begins.

        linear(x, p[32:])

    After freezing, `p[32:]` is a constant with a storage offset. Templates of products view it with
    `as_strided` and an offset within the constant, which `as_strided` takes as one within the
    storage: they pack the elements that the storage begins with. While they pack, such a constant
    has a storage of its own.
    """
    from torch._inductor.codegen import cpp_gemm_template

    create = cpp_gemm_template.DataProcessorTemplateWrapper

    def with_offset(
        template: Any, preprocessor: Any, postprocessor: Any, *, input_nodes: Any, **more: Any
    ) -> Any:
        def postprocess(output: Any) -> Any:
            with _own_storages(input_nodes):
                return postprocessor(output)

        return create(template, preprocessor, postprocess, input_nodes=input_nodes, **more)

    with replaced(cpp_gemm_template, "DataProcessorTemplateWrapper", with_offset):
        yield


@contextlib.contextmanager
def _own_storages(nodes: Sequence[Any]) -> Iterator[None]:
    """Constants of the graph at hand that `nodes` read begin with their storage inside."""
    from torch._inductor.virtualized import V

    constants = V.graph.constants
    read = {name: constants[name] for node in nodes if (name := node.get_name()) in constants}
    views = {
        name: tensor
        for name, tensor in read.items()
        if tensor.layout is torch.strided and tensor.numel() and tensor.storage_offset()
    }
    for name, view in views.items():
        extent = 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True))
        copied = view.as_strided((extent,), (1,)).clone()
        constants[name] = copied.as_strided(view.shape, view.stride())
    try:
        yield
    finally:
        constants.update({name: view for name, view in views.items() if name in constants})


@contextlib.contextmanager
def factors_of_their_own() -> Iterator[None]:
    """Each convolution is multiplied by its own number.

        convolution(x, v) * 0.5, convolution(y, w) * 0.25

    When weights are frozen, such a number goes into them. On its way it is the graph's buffer
    `other_tensor`, and since all have that name, all weights were multiplied by one of them.
    """
    from torch._inductor import freezing

    passes, create = freezing.freezing_passes, torch.fx.Graph.create_node
    names = itertools.count()

    @functools.wraps(create)
    def create_node(graph: Any, op: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        if op == "get_attr" and target == "other_tensor":
            number = graph.owning_module.get_buffer(target)
            target = f"other_tensor_{next(names)}"
            graph.owning_module.register_buffer(target, number)
        return create(graph, op, target, *args, **kwargs)

    @functools.wraps(passes)
    def with_names(*args: Any, **kwargs: Any) -> Any:
        with replaced(torch.fx.Graph, "create_node", create_node):
            return passes(*args, **kwargs)

    with replaced(freezing, "freezing_passes", with_names):
        yield


@contextlib.contextmanager
def transposed_convolutions_unfolded() -> Iterator[None]:
    """What follows a transposed convolution stays out of its weights.

        batch_norm(conv_transpose2d(x, w))

    When weights are frozen, sums and products by channel go into the weights of the convolution
    before them, along their first dimension. That holds the output channels, except in a transposed
    convolution, where it holds the input channels: with as many of both, results were wrong.
    """
    from torch._inductor import freezing

    passes = freezing.freezing_passes

    @functools.wraps(passes)
    def without_transposed(gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        convolution = torch.ops.aten.convolution.default
        for node in gm.graph.find_nodes(op="call_function", target=convolution):
            if node.args[6]:
                node.target = _transposed_convolution
        try:
            return passes(gm, *args, **kwargs)
        finally:
            for node in gm.graph.find_nodes(op="call_function", target=_transposed_convolution):
                node.target = convolution

    with replaced(freezing, "freezing_passes", without_transposed):
        yield


def _transposed_convolution(*args: Any) -> Any:
    """Stands for the operator where patterns are not to see it."""
    return torch.ops.aten.convolution.default(*args)
