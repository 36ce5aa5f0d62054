"""Fixes of Inductor's lowerings, scheduler and C++ code generation."""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

from pteron.backends.aoti.inductor.memoized import rewritten_templates
from pteron.backends.aoti.inductor.patches import Context, patched, repair, wrapped

PLACES = (
    "torch._inductor.codegen.cpp_gemm_template: GEMM_TEMPLATE; torch._inductor.lowering: div_mode"
)


@repair()
def fix_reinterpret_view_after_mutation() -> Context:
    """A load through a view reads the buffer's value from before a later in-place mutation.

        z = y.view(-1) * 8; y[y > 0.5] = 0.3; return z

    Inductor functionalizes the mutation into a new buffer and renames the tensor to it, also in
    loaders that were made before and read the tensor through a view.
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

    return patched(ir.ReinterpretView, "make_loader", make_loader)


@repair()
def fix_fusion_of_mutation_with_reads() -> Context:
    """A mutation is not fused with reads of the same tensor at other indices.

        t.index_copy_(0, where, rows); t.add_(t.flip(0))

    Inductor compares indices only of reads under the buffer name of the write, not of those under
    the name of an earlier mutation (issue 198270).
    """
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.scheduler import Scheduler

    def compare(fusable: Any, scheduler: Any, weak_dep: Any, reader: Any, writer: Any) -> bool:
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

    return wrapped(Scheduler, "fusable_weak_dep", compare)


@repair("2.11", "2.12")
def fix_int_array_deduplication() -> Context:
    """An int array is declared once for each code section that `writeline` writes to.

    Inductor keys its cache by the `id` of a bound method, which a later one can reuse: cache
    hits, and so the code, differed from run to run.
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    def find(own: Any, wrapper: Any, array: str, writeline: Any, *args: Any, **more: Any) -> Any:
        known = wrapper.__dict__.setdefault("_pteron_writers", {})  # alive, so that ids are unique
        writeline = known.setdefault(id(getattr(writeline, "__self__", writeline)), writeline)
        return own(wrapper, array, writeline, *args, **more)

    return wrapped(CppWrapperCpu, "codegen_int_array_var", find)


@repair()
def fix_int8_minmax_reductions() -> Context:
    """min, max, argmin and argmax of int8 and uint8 tensors are computed in int32.

    Partial vector loads of 8-bit elements fill up with zeros, which are reduced too (issue 191499).
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    def widen(inner_fn: Callable[..., Any], *indices: Any) -> Any:
        value = inner_fn(*indices)
        if isinstance(value, tuple):  # with its index
            return ops.to_dtype(value[0], torch.int32), *value[1:]
        return ops.to_dtype(value, torch.int32)

    def create_widened(create: Callable[..., Any], **reduction: Any) -> Any:
        dtype, kind = reduction["src_dtype"], reduction["reduction_type"]
        is_byte = reduction["device"].type == "cpu" and dtype in (torch.int8, torch.uint8)
        if not is_byte or kind not in ("min", "max", "argmin", "argmax"):
            return create(**reduction)
        returned = reduction["dst_dtype"]
        reduction["src_dtype"] = torch.int32
        reduction["dst_dtype"] = torch.int32 if returned == dtype else returned
        reduction["inner_fn"] = functools.partial(widen, reduction["inner_fn"])
        result = create(**reduction)
        result.realize()
        return lowering.to_dtype(result, returned)

    return _wrapped_reduction_create(create_widened)


@repair()
def fix_argminmax_index_order() -> Context:
    """argmin and argmax return indices in the tensor's logical order, not in memory order.

        (x.t() + y).argmax()

    Inductor reorders the loops by stride and returns the loop counter (issues 163929, 174073).
    """
    from torch._inductor import ir

    def create_flat(create: Callable[..., Any], **reduction: Any) -> Any:
        sizes = reduction["reduction_ranges"]
        is_index = reduction["reduction_type"] in ("argmin", "argmax")
        if reduction["device"].type == "cpu" and is_index and len(sizes) > 1:
            length = math.prod(sizes)
            inner_fn = reduction["inner_fn"]
            unflatten = ir.View.dynamic_reshape_indexer(sizes, [length])

            def flat(index: Any, position: Any) -> Any:
                value = inner_fn(index, unflatten(position))
                return value[0] if isinstance(value, tuple) else value

            reduction.update(inner_fn=flat, reduction_ranges=[length])
        return create(**reduction)

    return _wrapped_reduction_create(create_flat)


def _wrapped_reduction_create(create: Callable[..., Any]) -> Context:
    """`create` gets the original `Reduction.create`, and all arguments as keywords."""
    from torch._inductor import ir

    def create_by_name(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs).arguments
        return create(functools.partial(original, bound.pop("cls")), **bound)

    return wrapped(ir.Reduction, "create", create_by_name)


def fix_var_mean_of_empty(ranges: Mapping[Any, Any]) -> Context:
    """The mean of `var_mean` over an empty dimension is NaN (issue 197108).

        torch.var_mean(x, dim=0)    # x has no rows at run time

    Welford's algorithm starts with a mean of 0.

    Args:
        ranges: the program's range constraints. Inductor's own start at 2.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops
    from torch.utils._sympy.value_ranges import bound_sympy

    def compute_or_nan(compute: Any, x: Any, axis: Any, **more: Any) -> tuple[Any, ...]:
        var, *mean = compute(x, axis, **more)
        sizes, dims = x.get_size(), lowering._validate_reduction_axis(x, axis)
        if not mean or all(bound_sympy(sizes[dim], dict(ranges)).lower > 0 for dim in dims):
            return var, *mean
        count = math.prod(sizes[dim] for dim in dims)

        def or_nan(mean: Any) -> Any:
            is_empty = ops.eq(ops.index_expr(count, torch.int64), ops.constant(0, torch.int64))
            return ops.where(is_empty, ops.constant(math.nan, x.get_dtype()), mean)

        return var, lowering.make_pointwise(or_nan)(*mean)

    return wrapped(lowering, "var_mean_welford_", compute_or_nan)


@repair()
def fix_reduction_tail_stores() -> Context:
    """The tail of a vectorized loop stores only its own elements after a reduction.

    Inductor looks for a reduction in the next inner loop only. If there is another loop between,
    whole vectors are stored past the end of rows and of the buffer (issues 181690, 196681).
    """
    from torch._inductor.codegen.cpp import CppKernelProxy

    def with_tails(aggregate: Any, proxy: Any, reduces_inside: bool, outer_loop: Any) -> None:
        if outer_loop is not None and not outer_loop.is_reduction:
            loops = proxy.loop_nest.loops
            inside = itertools.dropwhile(lambda loop: loop is not outer_loop, loops)
            reduces_inside = any(loop.is_reduction for loop in inside)
        aggregate(proxy, reduces_inside, outer_loop)

    return wrapped(CppKernelProxy, "aggregate_reduction_buffers", with_tails)


@repair()
def fix_int64_arange_step() -> Context:
    """`arange` vectors of an index are int64 (issue 175966).

    The start is int64, but the step has the literal's type, int.
    """
    from torch._inductor.codegen.cpp import CppVecKernel

    def with_long_step(arange: Any, kernel: Any, index: Any, stride: Any) -> Any:
        return arange(kernel, index, f"static_cast<int64_t>({stride})")

    return wrapped(CppVecKernel, "arange", with_long_step)


@repair()
@contextlib.contextmanager
def fix_floor_division_rounding() -> Iterator[None]:
    """Floating-point `a // b` is computed as eager does on the CPU: 1.0 // 0.1 is 9 (issue 197895).

    Inductor rounds the quotient first, to 10.
    """
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    overloads = torch.ops.aten.div.Tensor_mode, torch.ops.aten.div.Scalar_mode
    div_mode = lowering.div_mode

    def div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        left: Any
        left, right = lowering.promote_constants((a, b))
        dtype = left.get_dtype()
        is_ours = rounding_mode == "floor" and dtype.is_floating_point
        if not is_ours or right.get_dtype() != dtype or left.get_device().type != "cpu":
            return div_mode(a, b, rounding_mode)  # not the promoted ones
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

    with mock.patch.dict(lowering.lowerings):
        lowering.register_lowering(list(overloads), broadcast=True)(div)
        yield


@repair()
def fix_rounding_of_pooled_sizes() -> Context:
    """The number of windows of a pooling is computed at run time, for sizes that are dynamic.

    Inductor asks whether to round it up makes a difference for the example's size, and guards on
    the answer, which AOTInductor drops. Of a size without a hint, it asks what is known of each.
    """
    from torch._inductor import lowering
    from torch.fx.experimental import _config

    def of_any_size(lower: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(lower)
        def call(*args: Any, **kwargs: Any) -> Any:
            with mock.patch.object(_config, "backed_size_oblivious", True):
                return lower(*args, **kwargs)

        return call

    pools = {op: of_any_size(f) for op, f in lowering.lowerings.items() if "pool" in str(op)}
    return mock.patch.dict(lowering.lowerings, pools)


@repair("2.11", "2.12", "2.13")
def fix_bool_eq_value_ranges() -> Context:
    """`a == b` of bool operands: `ValueRanges` orders their bounds, a TypeError for bools."""
    import sympy
    from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges

    def of_any(eq: Callable[..., Any], a: Any, b: Any) -> Any:
        a, b = ValueRanges.wrap(a), ValueRanges.wrap(b)
        if a.is_bool and b.is_bool:
            return ValueRanges(sympy.false, sympy.true)
        return eq(a, b)

    return wrapped(SymPyValueRangeAnalysis, "eq", of_any)


@repair()
def fix_fft_strides() -> Context:
    """FFTs have the output strides of backends/aoti/ops/fft/fft.cpp, on all devices.

        fft(x.transpose(0, 1))

    Batch dimensions are outermost, in the input's stride order, then the transformed ones; the last
    one of an r2c or c2r transform is innermost. torch 2.11 traces overlapping strides, 2.13 other
    ones for CUDA.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    c2c = torch.ops.aten._fft_c2c.default
    kernels = (c2c, torch.ops.aten._fft_r2c.default, torch.ops.aten._fft_c2r.default)

    def with_strides(process: Any, cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        returned = process(cls, kernel, *args, **kwargs)  # a tuple until 2.13
        if kernel in kernels and args[1]:
            is_tuple = isinstance(returned, tuple)
            result, operands = (
                returned[:2] if is_tuple else (returned.example_output, returned.tensor_args)
            )
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
            if is_tuple:
                return result, *returned[1:]
            return dataclasses.replace(returned, example_output=result)
        return returned

    return wrapped(ir.ExternKernel, "process_kernel", with_strides)


@repair()
def freeze_flex_decoding_query_layout() -> Context:
    """The query's layout is frozen before the flex-decoding kernel (few queries) is generated.

        flex_attention(q.transpose(1, 2).contiguous(), k, v)

    Inductor writes the query's strides into the kernel while its layout is still flexible.
    """
    from torch._inductor import ir
    from torch._inductor.kernel.flex import flex_attention

    def create_frozen(create: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        query = ir.ExternKernel.realize_input(query)
        query.freeze_layout()
        return create(query, *args, **kwargs)

    return wrapped(flex_attention, "create_flex_decoding_kernel", create_frozen)


@repair()
def fix_identity_comparison() -> Context:
    """`Identity` of a constant can be evaluated, so that sympy can compare it.

    Inductor wraps constant indices in `Identity` to keep them from being folded. sympy knows that
    it is a number but not which: `Max(Identity(0) + 1, n)` raises "is not comparable".
    """
    from torch.utils._sympy.functions import Identity

    def evaluate(wrapped: Any, precision: int) -> Any:
        return wrapped.args[0]._eval_evalf(precision)

    return patched(Identity, "_eval_evalf", evaluate)


@repair("2.11")
def fix_cant_split_arguments() -> Context:
    """`CantSplit` can be raised without arguments.

    Inductor does so where a loop cannot be split into three; its constructor requires two, so a
    TypeError replaced the exception that Inductor catches to try another tiling.
    """
    from torch._inductor.codegen import simd

    def create(error: Any, expr: Any = None, remaining: Any = None) -> None:
        Exception.__init__(error)
        error.expr, error.remaining = expr, remaining

    return patched(simd.CantSplit, "__init__", create)


@repair("2.11", "2.12")
def fix_while_loop_mutation_outputs() -> Context:
    """A `while_loop` may mutate its carried inputs, as those of `map` and `scan` do.

    The C++ wrapper counts only outputs that are no mutations (AssertionError in
    codegen_subgraph_prefix).
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    def write_all(write: Any, wrapper: Any, loop: Any, *args: Any, **more: Any) -> None:
        others = iter(loop.outputs)
        written = {
            name: output for output in loop.mutation_outputs for name in output.get_mutation_names()
        }
        outputs = [written.get(x.get_name()) or next(others) for x in loop.carried_inputs]
        with patched(loop, "outputs", outputs):
            write(wrapper, loop, *args, **more)

    return wrapped(CppWrapperCpu, "codegen_while_loop", write_all)


@repair()
def fix_masked_load_bounds() -> Context:
    """A masked load reads neither past the tail of the loop nor masked elements.

    In the tail Inductor loads a whole vector all the same; of bool tensors it loads masked
    elements, too.
    """
    from torch._inductor.codegen.cpp import CppVecKernel
    from torch._inductor.virtualized import V

    stride_of = CppVecKernel._try_get_const_stride

    def load_within(load: Callable[..., Any], kernel: Any, name: str, index: Any) -> Any:
        mask = kernel._load_mask
        is_whole = kernel.num_elems == kernel.tiling_factor
        if mask is None or (is_whole and V.graph.get_dtype(name) != torch.bool):
            return load(kernel, name, index)
        if not mask.is_vec:  # the code is reached only where it holds
            with patched(kernel, "_load_mask", None):
                return load(kernel, name, index)

        def one_by_one(*args: Any) -> Any:
            return 0 if stride_of(kernel, *args) == 0 else None

        with patched(kernel, "_try_get_const_stride", one_by_one):
            return load(kernel, name, index)

    return wrapped(CppVecKernel, "load", load_within)


@repair()
def fix_gemm_with_zero_rows() -> Context:
    """A GEMM with a dynamic M returns at once if M is 0.

    The template divides by the number of blocks of rows, which would be a SIGFPE.
    """
    dynamic = "    const int64_t M = {{kernel.size(GemmOut, 0)}};\n"
    checked = f"{dynamic}    if (M == 0) return;\n"
    return rewritten_templates(lambda text: text.replace(dynamic, checked))
