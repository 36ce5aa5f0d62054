"""Mistakes of Inductor that change results or stop a lowering, put right while we generate code.

Each has a test that fails without it, in `tests/test_repairs.py` unless it says where; one that a
release has cured costs nothing and can go.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched
from pteron.backends.aoti.inductor.release import release


@contextlib.contextmanager
def repairs() -> Iterator[None]:
    """All of them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_write_under_a_reader())
        stack.enter_context(no_write_that_is_overwritten())
        stack.enter_context(cumsum_of_the_dtype_asked_for())
        stack.enter_context(offsets_from_the_base())
        stack.enter_context(sums_of_products_apart())
        stack.enter_context(loops_from_constants())
        stack.enter_context(operands_of_branches_as_traced())
        stack.enter_context(arrays_by_their_writer())
        stack.enter_context(weights_from_their_offset())
        stack.enter_context(batches_of_any_number())
        stack.enter_context(bytes_ordered_as_ints())
        stack.enter_context(indices_in_the_order_of_the_tensor())
        stack.enter_context(tails_of_reductions())
        stack.enter_context(steps_of_64_bits())
        stack.enter_context(floor_division_of_floats())
        stack.enter_context(factors_of_their_own())
        stack.enter_context(transposed_convolutions_unfolded())
        yield


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
def arrays_by_their_writer() -> Iterator[None]:
    """An array of sizes is declared once for each section of the code that is written to.

    torch 2.11 knows the section by the identity of a bound method, which the next one made may have
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

    with patched(CppWrapperCpu, "codegen_int_array_var", find):
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

    with patched(cpp_gemm_template, "DataProcessorTemplateWrapper", with_offset):
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
def batches_of_any_number() -> Iterator[None]:
    """A product in batches, of which there may be any number, does not pack a weight for each.

        linear(x.transpose(0, 1), p)        # becomes bmm(x, p.expand(batches, ...))

    The template packs as many copies of the constant as the example inputs have batches. With more
    batches the code reads beyond them.
    """
    from torch._inductor.kernel import bmm
    from torch._inductor.virtualized import V

    use = bmm.use_cpp_bmm_template

    def use_if_packed_for_all(layout: Any, mat1: Any, mat2: Any) -> bool:
        is_dynamic = any(getattr(size, "free_symbols", ()) for size in mat2.get_size())
        return not (is_dynamic and mat2.get_name() in V.graph.constants) and use(layout, mat1, mat2)

    with patched(bmm, "use_cpp_bmm_template", use_if_packed_for_all):
        yield


@contextlib.contextmanager
def bytes_ordered_as_ints() -> Iterator[None]:
    """Extremes of int8 and uint8 tensors, and their indices, are found among int32.

    Vectors of bytes are loaded in part, and the zeros in the rest take part (issue 191499).
    """
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import ops

    create = ir.Reduction.create

    def widen(inner_fn: Callable[..., Any], *indices: Any) -> Any:
        value = inner_fn(*indices)
        if isinstance(value, tuple):  # with its index
            return ops.to_dtype(value[0], torch.int32), *value[1:]
        return ops.to_dtype(value, torch.int32)

    def create_widened(**reduction: Any) -> Any:
        dtype = reduction["src_dtype"]
        extremes = "min", "max", "argmin", "argmax"
        if (
            reduction["device"].type != "cpu"
            or dtype not in (torch.int8, torch.uint8)
            or reduction["reduction_type"] not in extremes
        ):
            return create(**reduction)
        returned = reduction["dst_dtype"]
        reduction["src_dtype"] = torch.int32
        reduction["dst_dtype"] = torch.int32 if returned == dtype else returned
        reduction["inner_fn"] = functools.partial(widen, reduction["inner_fn"])
        result = create(**reduction)
        result.realize()
        return lowering.to_dtype(result, returned)

    with _reductions_by(create_widened):
        yield


@contextlib.contextmanager
def indices_in_the_order_of_the_tensor() -> Iterator[None]:
    """The index of an extreme counts elements as the tensor orders them, not as memory does.

        (x.t() + y).argmax()

    Inductor takes the loops in the order of the memory, and counts them (issues 163929, 174073).
    """
    from torch._inductor import ir

    create = ir.Reduction.create

    def create_flat(**reduction: Any) -> Any:
        sizes = reduction["reduction_ranges"]
        if (
            reduction["device"].type == "cpu"
            and reduction["reduction_type"] in ("argmin", "argmax")
            and len(sizes) > 1
        ):
            length = ir.sympy_product(sizes)
            inner_fn = reduction["inner_fn"]
            unflatten = ir.View.dynamic_reshape_indexer(sizes, [length])

            def flat(index: Any, position: Any) -> Any:
                value = inner_fn(index, unflatten(position))
                return value[0] if isinstance(value, tuple) else value

            reduction.update(inner_fn=flat, reduction_ranges=[length])
        return create(**reduction)

    with _reductions_by(create_flat):
        yield


@contextlib.contextmanager
def _reductions_by(create: Callable[..., Any]) -> Iterator[None]:
    """`Reduction.create` is `create`, which gets all arguments by their names."""
    from torch._inductor import ir

    signature = inspect.signature(ir.Reduction.create)

    @functools.wraps(ir.Reduction.__dict__["create"].__func__)  # with its signature
    def create_by_name(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return create(**signature.bind(*args, **kwargs).arguments)

    with patched(ir.Reduction, "create", classmethod(create_by_name)):
        yield


@contextlib.contextmanager
def tails_of_reductions() -> Iterator[None]:
    """What is left of a vectorized dimension is stored with its own width after a reduction.

    Whether a reduction is inside the vectorized loop, Inductor looks for in the next loop only; if
    there is another between, whole vectors are stored over the end of rows and of the buffer
    (issues 181690, 196681).
    """
    from torch._inductor.codegen.cpp import CppKernelProxy

    aggregate = CppKernelProxy.aggregate_reduction_buffers

    @functools.wraps(aggregate)
    def with_tails(proxy: Any, reduces_inside: bool, outer_loop: Any) -> None:
        if outer_loop is not None and not outer_loop.is_reduction:
            loops = proxy.loop_nest.loops
            inside = itertools.dropwhile(lambda loop: loop is not outer_loop, loops)
            reduces_inside = any(loop.is_reduction for loop in inside)
        aggregate(proxy, reduces_inside, outer_loop)

    with patched(CppKernelProxy, "aggregate_reduction_buffers", with_tails):
        yield


@contextlib.contextmanager
def steps_of_64_bits() -> Iterator[None]:
    """Multiples of an index are computed in 64 bits (issue 175966).

    A vector of them begins with 64 bits but takes steps of the literal's type, an int.
    """
    from torch._inductor.codegen.cpp import CppVecKernel

    arange = CppVecKernel.arange

    @functools.wraps(arange)
    def with_long_step(kernel: Any, index: Any, stride: Any) -> Any:
        return arange(kernel, index, f"static_cast<int64_t>({stride})")

    with patched(CppVecKernel, "arange", with_long_step):
        yield


@contextlib.contextmanager
def floor_division_of_floats() -> Iterator[None]:
    """`a // b` of floats is the quotient below: 9 for 1.0 // 0.1, as eager says (issue 197895).

    Inductor rounds the quotient first, to 10. This is what eager computes, on the CPU.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    overloads = torch.ops.aten.div.Tensor_mode, torch.ops.aten.div.Scalar_mode
    before: dict[Callable[..., Any] | str, Callable[..., Any]]
    before = {op: lowering.lowerings[op] for op in overloads}
    div_mode = lowering.div_mode

    def div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        a, b = lowering.promote_constants((a, b))
        dtype = a.get_dtype()
        is_ours = rounding_mode == "floor" and dtype.is_floating_point
        if not is_ours or b.get_dtype() != dtype or a.get_device().type != "cpu":
            return div_mode(a, b, rounding_mode)
        precise = torch.promote_types(dtype, torch.float32)
        zero, half, one = (functools.partial(ops.constant, n, precise) for n in (0.0, 0.5, 1.0))

        def divide(a: Any, b: Any) -> Any:
            a, b = ops.to_dtype(a, precise), ops.to_dtype(b, precise)
            rest = ops.fmod(a, b)
            quotient = ops.truediv(ops.sub(a, rest), b)
            differ = ops.ne(ops.lt(b, zero()), ops.lt(rest, zero()))
            is_above = ops.logical_and(ops.ne(rest, zero()), differ)
            quotient = ops.where(is_above, ops.sub(quotient, one()), quotient)
            floor = ops.floor(quotient)
            is_below = ops.gt(ops.sub(quotient, floor), half())
            floor = ops.where(is_below, ops.add(floor, one()), floor)
            floor = ops.where(ops.eq(b, zero()), ops.truediv(a, b), floor)
            return ops.to_dtype(floor, dtype)

        return lowering.make_pointwise(divide)(a, b)

    lowering.register_lowering(list(overloads), broadcast=True)(div)
    try:
        yield
    finally:
        lowering.lowerings.update(before)


@contextlib.contextmanager
def cumsum_of_the_dtype_asked_for() -> Iterator[None]:
    """The running sum of a constant has the dtype that the call names (issue 189518).

    Inductor writes it as a multiple of an index, in the dtype of the constant.
    """
    from torch._inductor.fx_passes import post_grad

    with _checked(post_grad.pass_patterns, "pointless_cumsum_replacement", _sums_in_its_dtype):
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
    with _checked(post_grad.pass_patterns, "mm_plus_mm", is_elsewhere):
        yield


@contextlib.contextmanager
def _checked(passes: Sequence[Any], handler: str, check: Callable[[Any], bool]) -> Iterator[None]:
    """The pattern that `handler` rewrites is rewritten where `check` holds."""
    with contextlib.ExitStack() as stack:
        entries = (entry for each in passes for many in each.patterns.values() for entry in many)
        for entry in entries:
            if getattr(getattr(entry, "handler", None), "__name__", "") == handler:
                stack.enter_context(patched(entry, "extra_check", check))
        yield


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
        with patched(torch.fx.Graph, "create_node", create_node):
            return passes(*args, **kwargs)

    with patched(freezing, "freezing_passes", with_names):
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

    with patched(freezing, "freezing_passes", without_transposed):
        yield


def _transposed_convolution(*args: Any) -> Any:
    """Stands for the operator where patterns are not to see it."""
    return torch.ops.aten.convolution.default(*args)
