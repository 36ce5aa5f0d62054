"""Repairs of lowerings and loops, and of how buffers are read."""

import contextlib
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pteron.backends.aoti.inductor.patched import patched
from pteron.backends.aoti.inductor.release import release


@contextlib.contextmanager
def views_of_what_was_computed() -> Iterator[None]:
    """A view is read as it was when it was taken, also if its tensor is changed in place later.

        z = y.view(-1) * 8; y[y > 0.5] = 0.3; return z

    Inductor makes the change a new buffer and lets the tensor's name stand for that one, also in
    loops that were built before and read the tensor through a view.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import ops

    def make_loader(view: ir.ReinterpretView) -> Callable[[Sequence[Any]], Any]:
        name, indexer = view.get_name(), view.layout.make_indexer()

        def load(index: Sequence[Any]) -> Any:
            value = ops.load(name, indexer(index))
            if view.layout.dtype == view.data.dtype:
                return value
            return ops.to_dtype_bitcast(value, view.dtype, view.data.dtype)

        return load

    with patched(ir.ReinterpretView, "make_loader", make_loader):
        yield


@contextlib.contextmanager
def no_write_among_reads() -> Iterator[None]:
    """A tensor that is changed in place is not read at other indices in the loop that writes it.

        t.index_copy_(0, where, rows); t.add_(t.flip(0))

    Inductor compares the indices of those reads that name the tensor as the write does, not of
    those that name it by an earlier change (issue 198270).
    """
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.scheduler import Scheduler

    fusable: Callable[..., bool] = Scheduler.fusable_weak_dep

    @functools.wraps(fusable)
    def fusable_by_memory(scheduler: Any, weak_dep: Any, reader: Any, writer: Any) -> bool:
        if not fusable(scheduler, weak_dep, reader, writer):
            return False
        names = scheduler.mutation_real_name
        memory, writes = names[weak_dep.mutating_buf], writer.read_writes.writes
        (write,) = (write for write in writes if write.name == weak_dep.mutating_buf)
        return all(
            isinstance(read, MemoryDep) and (read.index, read.size) == (write.index, write.size)
            for read in reader.read_writes.reads
            if names.get(read.name, read.name) == memory
        )

    with patched(Scheduler, "fusable_weak_dep", fusable_by_memory):
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
def means_of_nothing(ranges: Mapping[Any, Any]) -> Iterator[None]:
    """`var_mean` of no elements is NaN, and so is the mean (issue 197108).

        torch.var_mean(x, dim=0)    # x has no rows at run time

    Welford's algorithm begins with a mean of 0, which stays.

    Args:
        ranges: what export allows each symbol to be. Inductor's own begin with 2.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops
    from torch.utils._sympy.value_ranges import bound_sympy

    compute: Callable[..., Any] = lowering.var_mean_welford_

    @functools.wraps(compute)
    def compute_or_nan(x: Any, axis: Any, **more: Any) -> tuple[Any, ...]:
        var, *mean = compute(x, axis, **more)
        sizes, dims = x.get_size(), lowering._validate_reduction_axis(x, axis)
        if not mean or all(bound_sympy(sizes[dim], dict(ranges)).lower > 0 for dim in dims):
            return var, *mean
        count = lowering.sympy_product(sizes[dim] for dim in dims)

        def or_nan(mean: Any) -> Any:
            is_none = ops.eq(ops.index_expr(count, torch.int64), ops.constant(0, torch.int64))
            return ops.where(is_none, ops.constant(math.nan, x.get_dtype()), mean)

        return var, lowering.make_pointwise(or_nan)(*mean)

    with patched(lowering, "var_mean_welford_", compute_or_nan):
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
        left: Any
        left, right = lowering.promote_constants((a, b))
        dtype = left.get_dtype()
        is_ours = rounding_mode == "floor" and dtype.is_floating_point
        if not is_ours or right.get_dtype() != dtype or left.get_device().type != "cpu":
            return div_mode(a, b, rounding_mode)  # as they come: it takes no constant for a number
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

        return lowering.make_pointwise(divide)(left, right)

    lowering.register_lowering(list(overloads), broadcast=True)(div)
    try:
        yield
    finally:
        lowering.lowerings.update(before)


@contextlib.contextmanager
def truth_values_compared() -> Iterator[None]:
    """`a == b` of truth values: Inductor asks which range lies above, an error for them."""
    import sympy
    from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges

    eq: Callable[..., Any] = SymPyValueRangeAnalysis.eq

    def of_any(a: Any, b: Any) -> Any:
        a, b = ValueRanges.wrap(a), ValueRanges.wrap(b)
        if a.is_bool and b.is_bool:
            return ValueRanges(sympy.false, sympy.true)
        return eq(a, b)

    with patched(SymPyValueRangeAnalysis, "eq", staticmethod(of_any)):
        yield


@contextlib.contextmanager
def layouts_of_fourier_transforms() -> Iterator[None]:
    """Fourier transforms give the strides that backends/aoti/ops/fft/fft.cpp gives, on all devices.

        fft(x.transpose(0, 1))

    Dimensions that are not transformed are outside, in the order of the operand's, then come the
    transformed ones; the last one of a transform of or to real numbers stays last. 2.11 traces
    strides that overlap, 2.13 other ones for CUDA.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    c2c = torch.ops.aten._fft_c2c.default
    kernels = (c2c, torch.ops.aten._fft_r2c.default, torch.ops.aten._fft_c2r.default)
    process = inspect.getattr_static(ir.ExternKernel, "process_kernel").__func__

    def with_strides(cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        result, operands, *rest = process(cls, kernel, *args, **kwargs)
        if kernel in kernels and args[1]:
            sizevars: Any = V.graph.sizevars
            strides = sizevars.optimization_hints(operands[0].get_stride())
            dims = [d % result.dim() for d in args[1]]
            order = sorted(range(result.dim()), key=lambda d: -strides[d])
            order = [d for d in order if d not in dims] + [d for d in order if d in dims]
            if kernel is not c2c:
                order.append(order.pop(order.index(dims[-1])))
            inverse = sorted(range(result.dim()), key=order.__getitem__)
            with V.graph.fake_mode:
                result = result.new_empty([result.size(d) for d in order]).permute(inverse)
        return result, operands, *rest

    with patched(ir.ExternKernel, "process_kernel", classmethod(with_strides)):
        yield


@contextlib.contextmanager
def queries_laid_out_first() -> Iterator[None]:
    """flex_attention for few queries reads them where they are.

        flex_attention(q.transpose(1, 2).contiguous(), k, v)

    Inductor writes the strides of the query into the kernel before it has decided on them.
    """
    from torch._inductor import ir
    from torch._inductor.kernel.flex import flex_attention

    create: Callable[..., Any] = flex_attention.create_flex_decoding_kernel

    @functools.wraps(create)
    def create_for_laid_out(query: Any, *args: Any, **kwargs: Any) -> Any:
        query = ir.ExternKernel.realize_input(query)
        query.freeze_layout()
        return create(query, *args, **kwargs)

    with patched(flex_attention, "create_flex_decoding_kernel", create_for_laid_out):
        yield


@contextlib.contextmanager
def constant_indices_compared() -> Iterator[None]:
    """The larger of two indices is found, also where one is a constant that was kept from folding.

    Inductor wraps such a constant in `Identity`, of which sympy knows that it is a number but not
    which: `Max(Identity(0) + 1, n)` is then an error ("is not comparable").
    """
    from torch.utils._sympy.functions import Identity

    def evaluate(wrapped: Any, precision: int) -> Any:
        return wrapped.args[0]._eval_evalf(precision)

    with patched(Identity, "_eval_evalf", evaluate):
        yield


@contextlib.contextmanager
def splits_in_three_given_up() -> Iterator[None]:
    """A loop that does not divide into three is tried in another way.

    torch 2.11 raises the exception that says so without its arguments, which is an error itself.
    """
    from torch._inductor.codegen import simd

    def create(error: Any, expr: Any = None, remaining: Any = None) -> None:
        Exception.__init__(error)
        error.expr, error.remaining = expr, remaining

    with patched(simd.CantSplit, "__init__", create):
        yield


@contextlib.contextmanager
def loops_that_write_in_place() -> Iterator[None]:
    """A `while_loop` may write the tensors that it carries in place, as `map` and `scan` do.

    The C++ wrapper of torch 2.11 counts the outputs that are not written in place alone
    (AssertionError in codegen_subgraph_prefix).
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    write: Any = CppWrapperCpu.codegen_while_loop
    if release() != "2.11":
        yield
        return

    def write_with_all_outputs(wrapper: Any, loop: Any, stack_output: bool = False) -> None:
        others = iter(loop.outputs)
        written = {
            name: output for output in loop.mutation_outputs for name in output.get_mutation_names()
        }
        outputs = [written.get(x.get_name()) or next(others) for x in loop.carried_inputs]
        with patched(loop, "outputs", outputs):
            write(wrapper, loop, stack_output)

    with patched(CppWrapperCpu, "codegen_while_loop", write_with_all_outputs):
        yield


@contextlib.contextmanager
def masked_loads_within_the_tensor() -> Iterator[None]:
    """A load under a mask reads no more elements than the loop has left, and none that is masked.

    In the last step of a loop Inductor reads a whole vector all the same; of truth values it reads
    those that are masked, too.
    """
    from torch._inductor.codegen.cpp import CppVecKernel
    from torch._inductor.virtualized import V

    load, stride_of = CppVecKernel.load, CppVecKernel._try_get_const_stride

    def load_within(kernel: Any, name: str, index: Any) -> Any:
        mask = kernel._load_mask
        is_whole = kernel.num_elems == kernel.tiling_factor
        if mask is None or (is_whole and V.graph.get_dtype(name) != torch.bool):
            return load(kernel, name, index)
        if not mask.is_vec:  # the code is reached only where it holds
            kernel._load_mask = None
            try:
                return load(kernel, name, index)
            finally:
                kernel._load_mask = mask

        def one_by_one(*args: Any) -> Any:
            return 0 if stride_of(kernel, *args) == 0 else None

        kernel._try_get_const_stride = one_by_one
        try:
            return load(kernel, name, index)
        finally:
            del kernel._try_get_const_stride

    with patched(CppVecKernel, "load", load_within):
        yield


#: The number of rows of a product, in templates, where it is known at run time.
_ROWS_AT_RUN_TIME = "    const int64_t M = {{kernel.size(GemmOut, 0)}};\n"


@contextlib.contextmanager
def products_of_no_rows() -> Iterator[None]:
    """A product of as many rows as an input has computes nothing if these are none.

    Its template divides the rows into blocks and then divides by the number of blocks, which ends
    the process.
    """
    from torch._inductor.codegen.common import KernelTemplate

    template: Callable[[str], Any] = KernelTemplate._template_from_string

    def template_of(text: str) -> Any:
        return template(
            text.replace(_ROWS_AT_RUN_TIME, f"{_ROWS_AT_RUN_TIME}    if (M == 0) return;\n")
        )

    with patched(KernelTemplate, "_template_from_string", staticmethod(template_of)):
        yield
