"""Fixes of where Inductor rounds, and of dtypes that overflow."""

import functools
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from pteron.backends.aoti.inductor.graph_repairs import extra_check
from pteron.backends.aoti.inductor.patches import Context, patched, repair, together, wrapped

PLACES = "torch._inductor.fx_passes.joint_graph: pointless_convert"
_HALVES = (torch.float16, torch.bfloat16)
_ATEN = torch.ops.aten
#: Operators for which eager rounds a Python scalar to the tensor's dtype.
_ROUND_SCALARS = {_ATEN.fmod, _ATEN.remainder, _ATEN.full, _ATEN.scalar_tensor}
_COMPARISONS = {_ATEN.eq, _ATEN.ne, _ATEN.lt, _ATEN.le, _ATEN.gt, _ATEN.ge}
_ROUND_SCALARS_ON_CPU = {_ATEN.add, _ATEN.sub, _ATEN.rsub, *_COMPARISONS}


@repair()
def round_half_precision_as_eager() -> Context:
    """float16 and bfloat16 results are rounded after each operator, as in eager.

        torch.floor(h * 3), h.to(torch.float16).float()

    Inductor keeps float32 between the operators of a kernel. Integers and comparisons computed from
    such values can then differ from eager's (issues 176565, 181568, 185337).
    """
    from torch._inductor import compile_fx
    from torch._inductor.codegen.cpp import CppKernel
    from torch._inductor.codegen.triton import TritonScheduling

    def mark(passes: Any, module: torch.fx.GraphModule, *args: Any, **more: Any) -> Any:
        result = passes(module, *args, **more)
        for node in module.graph.nodes:
            if node.op == "call_function" and any(map(_is_half, (node, *node.all_input_nodes))):
                node.meta["low_precision_pointwise_barrier"] = True
                _round_scalars(node)
        return result

    def define_unfused(define: Any, scheduling: Any, source: str, *args: Any, **more: Any) -> Any:
        # LLVM takes a product that is rounded to float16 for one in float16, and contracts to FMA.
        if "float16" in source:
            source = source.replace("'enable_fp_fusion': True, ", "")
            source = source.replace("triton_meta={", "triton_meta={'enable_fp_fusion': False, ")
        return define(scheduling, source, *args, **more)

    return together(
        wrapped(compile_fx, "post_grad_passes", mark),
        wrapped(TritonScheduling, "define_kernel", define_unfused),
        # C++ kernels would reuse the float32 value from before the rounding.
        patched(CppKernel, "cache_dtype_convert", lambda *args: None),
    )


def _is_half(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES


def _round_scalars(node: torch.fx.Node) -> None:
    operator = getattr(node.target, "overloadpacket", None)
    like = node.all_input_nodes[0] if operator in _COMPARISONS else node
    if _is_half(like):
        value = like.meta["val"]
        on_cpu = value.device.type == "cpu" and operator in _ROUND_SCALARS_ON_CPU
        if on_cpu or operator in _ROUND_SCALARS:
            node.args = tuple(
                torch.tensor(arg, dtype=value.dtype).item() if isinstance(arg, float) else arg
                for arg in node.args
            )


@repair()
def keep_rounding_conversions() -> Context:
    """The first of two dtype conversions is removed only if it is exact.

        x.half().bfloat16(), n.float().double()

    Inductor converts to the last dtype directly.
    """
    from torch._inductor.fx_passes import joint_graph

    return extra_check([joint_graph.patterns], "pointless_convert", _is_exact)


def _is_exact(match: Any) -> bool:
    value = match.kwargs["arg"].meta.get("val")
    first, second = getattr(value, "dtype", None), match.kwargs["dtype1"]
    if first is None or not (first.is_floating_point and second.is_floating_point):
        return False
    narrow, wide = torch.finfo(first), torch.finfo(second)
    return wide.eps <= narrow.eps and wide.max >= narrow.max and wide.tiny <= narrow.tiny


@repair("2.11", "2.12", "2.13")
def keep_nan_times_zero() -> Context:
    """`x * 0` is NaN where x is not finite; Inductor folds it to 0."""
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder

    def fold_integers(fold: Any, folder: Any) -> None:
        fold(folder)
        known = folder.node_replacements, folder.node_replacements_shapes, folder.constant_data_ptrs
        for node in list(folder.node_replacements):
            dtype = node.meta["val"].dtype
            if dtype.is_floating_point or dtype.is_complex:
                for values in known:
                    values.pop(node)

    return wrapped(UniformValueConstantFolder, "_add_peephole_patterns", fold_integers)


@repair()
def fix_index_propagation_dtypes() -> Context:
    """Index propagation stops at values that their dtype does not hold.

        torch.arange(300).to(torch.uint8).float(), torch.arange(1041, dtype=torch.bfloat16)

    Inductor propagates indices as integers of any size and converts only the result: 256 instead of
    0 for uint8, 257 instead of 256 for bfloat16.
    """
    from torch._inductor.index_propagation import IndexPropagation
    from torch.utils._sympy.value_ranges import bound_sympy

    def holds(handler: Any, value: Any) -> bool:
        dtype = value.dtype
        if value.is_constant() or dtype == torch.int64:
            return True
        bounds = bound_sympy(value.expr, dict(handler.var_to_range))
        if dtype.is_floating_point:
            high = int(2 / torch.finfo(dtype).eps)  # integers up to it are exact
            low = -high
        elif dtype == torch.bool:
            low, high = 0, 1
        else:
            low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
            if dtype == torch.int32 and not bounds.upper.is_finite:
                return True  # a size that nothing bounds: no tensor has as many elements
        return bool(low <= bounds.lower and bounds.upper <= high)

    def propagate_held(propagate: Any, handler: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = propagate(handler, name, args, kwargs)
        if not result.is_symbolic or holds(handler, result.value):
            return result
        if name != "index_expr":
            return handler.fallback(name, args, kwargs)
        index = handler.fallback(name, (args[0], torch.int64), {})
        return handler.fallback("to_dtype", (index, result.value.dtype), {"src_dtype": torch.int64})

    return wrapped(IndexPropagation, "propagate_sympy", propagate_held)


@repair()
def fix_decomposed_matmul_dtypes() -> Context:
    """Matmuls that Inductor decomposes into a reduction keep their dtype and precision, and NaN in
    one is ignored where it is multiplied by 0, as elsewhere.

        bmm(a, b), addmm(c, a, b, alpha=0)    # one row

    A sum of integers is int64 (issue 191308), and float16 products would be rounded before they are
    added.
    """
    from torch._inductor import lowering
    from torch._inductor.decomposition import decompositions, fast_random_decomps
    from torch._inductor.kernel import bmm

    def add(decompose: Any, added: Any, *factors: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        if alpha == 0:
            return (added * beta).expand(factors[0].shape[0], factors[1].shape[1]).clone()
        return decompose(added, *factors, beta=beta, alpha=alpha)

    def mul(a: Any, b: Any) -> Any:
        if a.get_dtype() in _HALVES:
            a, b = lowering.to_dtype(a, torch.float32), lowering.to_dtype(b, torch.float32)
        return lowering.mul(a, b)

    lower: Callable[..., Any] = lowering.lowerings[_ATEN.bmm.default]

    @functools.wraps(lower)
    def lower_in_dtype(a: Any, b: Any, out_dtype: Any = None, **more: Any) -> Any:
        return lowering.to_dtype(lower(a, b, out_dtype, **more), out_dtype or a.get_dtype())

    tables: Any = decompositions, fast_random_decomps()
    addmm, changed = _ATEN.addmm.default, {_ATEN.bmm.default: lower_in_dtype}
    return together(
        *(mock.patch.dict(x, {addmm: functools.partial(add, x[addmm])}) for x in tables),
        mock.patch.dict(lowering.lowerings, changed),
        # The module `lowering` for the module `bmm`, with a `mul` of its own.
        patched(bmm, "L", types.SimpleNamespace(**{**vars(lowering), "mul": mul})),
    )


@repair()
def fix_remainder_rounding() -> Context:
    """Vectorized floating-point `a % b` is exact: 0.3 % 0.1 is 0.1, 1 % inf is 1.

    Inductor subtracts a rounded multiple of b.
    """
    from torch._inductor.codegen.cpp import CppVecOverrides
    from torch._inductor.virtualized import ops

    def compute(remainder: Callable[..., Any], a: Any, b: Any) -> Any:
        if not a.dtype.is_floating_point:
            return remainder(a, b)
        zero = ops.constant(0.0, a.dtype)
        rest = ops.fmod(a, b)
        differ = ops.ne(ops.lt(b, zero), ops.lt(rest, zero))
        is_above = ops.logical_and(ops.ne(rest, zero), differ)
        result = ops.where(is_above, ops.add(rest, b), rest)
        return getattr(result, "value", result)

    return wrapped(CppVecOverrides, "remainder", compute)
